package rancher_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// webhookConfiguration returns what the API server knows of Rancher's webhook for v1 Clusters.
func webhookConfiguration(ctx context.Context) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	out := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(management.Get(ctx, client.ObjectKey{Name: "rancher.cattle.io"}, out)).To(Succeed())
	Expect(out.Webhooks).To(HaveLen(1))
	return out
}

var _ = Describe("A stand-in that keeps its state", func() {
	kept := func(o *rancher.Options) { o.StateNamespace = "kept-state" }
	forget := func(ctx context.Context) {
		GinkgoHelper()
		for _, name := range []string{"tls-rancher-internal-ca", "rancher-standin-workloads"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kept-state", Name: name}}
			Expect(client.IgnoreNotFound(management.Delete(ctx, secret))).To(Succeed())
		}
	}

	It("starts again where it stopped: agents come back by themselves", func(ctx SpecContext) {
		DeferCleanup(forget)
		address := freeAddress(ctx)
		named := func(o *rancher.Options) {
			kept(o)
			o.Listen, o.ServerURL = address, "https://"+address
		}
		first := startReal(ctx, named)
		Expect(first.SetServerURL(ctx, first.URL())).To(Succeed(), "that of an earlier spec is kept otherwise")
		joinReal(ctx, first, "c-again")
		v1 := newProvisioning(ctx, "again-capi")
		minted := provisioned(ctx, "again-capi")
		ca, url := first.CACert(), first.URL()
		Expect(first.SetAgentTLSMode(ctx, "system-store")).To(Succeed())
		Expect(first.SetServerURL(ctx, first.URL()+"/changed")).To(Succeed())
		first.Stop()

		second := start(ctx, named)
		Expect(second.CACert()).To(Equal(ca))
		Expect(second.URL()).To(Equal(url))
		Eventually(connectedTo(second, "c-again")).Should(BeTrue(), "the workload cluster is known")
		Eventually(clusterConditions("c-again")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "True"))
		Consistently(clustersOf).WithContext(ctx).WithArguments("default", v1.GetName()).Should(HaveExactElements(minted))
		for name, want := range map[string]string{"agent-tls-mode": "system-store", "server-url": url + "/changed"} {
			setting, err := get(ctx, management, settingGVK, "", name)
			Expect(err).NotTo(HaveOccurred())
			Expect(field(setting, "value")).To(Equal(want))
		}
		Expect(second.SetAgentTLSMode(ctx, "")).To(Succeed())

		Expect(second.RotateCA(ctx)).To(Succeed())
		rotated := second.CACert()
		second.RemoveWorkload("downstream")
		second.Stop()
		third := start(ctx, kept)
		Expect(third.CACert()).To(Equal(rotated), "a new CA is kept, too")
		Consistently(connectedTo(third, "c-again")).Should(BeFalse(), "a workload cluster that was removed is not")
		remove(ctx, object(clusterGVK, "", "c-again")) // as long as somebody takes the finalizers off
		remove(ctx, v1)
		Eventually(absent).WithContext(ctx).WithArguments(management, object(clusterGVK, "", minted)).Should(BeTrue())
	})

	It("tells others the address that it is given", func(ctx SpecContext) {
		s := start(ctx, func(o *rancher.Options) {
			o.ServerURL, o.Hosts = "https://rancher.example.test:8443", []string{"192.0.2.7"}
			o.Listen = "127.0.0.1:0"
		})
		Expect(s.URL()).To(Equal("https://rancher.example.test:8443"))
		newCluster(ctx, "c-named")
		Expect(manifestURL(ctx, "c-named", "default-token")).To(HavePrefix("https://rancher.example.test:8443/v3/import/"))
	})

	It("refuses an address that cannot be one", func() {
		opts := rancher.DefaultOptions(managementPlane.Config)
		opts.ServerURL = "http://rancher"
		_, err := rancher.New(opts)
		Expect(err).To(MatchError(ContainSubstring("is not https://HOST")))
	})

	It("is found through a Service by the API server", func(ctx SpecContext) {
		address := freeAddress(ctx)
		s := start(ctx, func(o *rancher.Options) {
			o.WebhookListen = address
			o.WebhookService, o.WebhookPort = &types.NamespacedName{Namespace: "cattle-system", Name: "rancher-webhook"}, 9443
		})
		defer s.Stop() // before anything else wants to write a v1 Cluster
		config := webhookConfiguration(ctx).Webhooks[0].ClientConfig
		Expect(config.URL).To(BeNil())
		Expect(config.Service).To(Equal(&admissionregistrationv1.ServiceReference{
			Namespace: "cattle-system", Name: "rancher-webhook", Path: new("/v1/mutate"), Port: new(int32(9443)),
		}))
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(config.CABundle)).To(BeTrue())
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "rancher-webhook.cattle-system.svc", MinVersion: tls.VersionTLS12}}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		Expect(err).NotTo(HaveOccurred())
		Expect(connection.Close()).To(Succeed())
	})

	It("leaves the webhook to the stand-in that took it over", func(ctx SpecContext) {
		first := start(ctx, nil)
		before := webhookConfiguration(ctx)
		start(ctx, func(o *rancher.Options) { o.Timings.Poll = time.Second })
		first.Stop()
		after := webhookConfiguration(ctx)
		Expect(after.UID).To(Equal(before.UID), "there was no moment without it")
		Expect(after.Webhooks[0].ClientConfig.CABundle).NotTo(Equal(before.Webhooks[0].ClientConfig.CABundle))
	})
})

// freeAddress returns an address of loopback at which nothing listens.
func freeAddress(ctx context.Context) string {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().String()
}
