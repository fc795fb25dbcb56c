package import_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certutil "k8s.io/client-go/util/cert"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // it is what is converted
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const webhookPath = "/convert"

// converter is Cluster API's conversion webhook. It can be away, and the CRD can know another certificate.
type converter struct {
	address     string
	handler     http.Handler
	certificate tls.Certificate
	server      *http.Server
	admin       client.Client
	crd         *apiextensionsv1.CustomResourceDefinition
	// ca is that of its certificate, and stranger another one.
	ca, stranger []byte
}

func newCertificate() (tls.Certificate, []byte) {
	GinkgoHelper()
	chain, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := tls.X509KeyPair(chain, key)
	Expect(err).NotTo(HaveOccurred())
	return certificate, chain
}

// start listens where it listened before.
func (c *converter) start(ctx context.Context) {
	GinkgoHelper()
	if c.address == "" {
		c.address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.address)
	Expect(err).NotTo(HaveOccurred())
	c.address = listener.Addr().String()
	c.server = &http.Server{
		Handler: c.handler, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.certificate},
		},
	}
	go func(server *http.Server) { _ = server.ServeTLS(listener, "", "") }(c.server)
}

// stop ends it, with its connections.
func (c *converter) stop() {
	GinkgoHelper()
	Expect(c.server.Close()).To(Succeed())
}

// trust has the CRD name a CA.
func (c *converter) trust(ca []byte) {
	GinkgoHelper()
	Eventually(komega.New(c.admin).Update(c.crd, func() { c.crd.Spec.Conversion.Webhook.ClientConfig.CABundle = ca })).Should(Succeed())
}

// convertClusters has the API server store CAPI Clusters as v1beta1, and convert them by a webhook.
func convertClusters(ctx context.Context, f *fixture) *converter {
	GinkgoHelper()
	known := runtime.NewScheme()
	Expect(clusterv1.AddToScheme(known)).To(Succeed())
	Expect(clusterv1beta1.AddToScheme(known)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	capiconversion.SetAPIVersionGetter(func(_ context.Context, kind schema.GroupKind) (string, error) { return kind.Group + "/v1beta2", nil })
	registry := conversion.NewRegistry()
	kind := clusterv1.GroupVersion.WithKind("Cluster").GroupKind()
	Expect(registry.RegisterConverter(kind, must(capiconversion.Cluster(known)))).To(Succeed())
	c := &converter{handler: conversion.NewWebhookHandler(known, registry)}
	c.certificate, c.ca = newCertificate()
	_, c.stranger = newCertificate()
	c.start(ctx)
	DeferCleanup(func() { _ = c.server.Close() })

	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	admin := must(client.New(f.Management.Config, client.Options{Scheme: known}))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(crds[0]), crd)).To(Succeed())
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == "v1beta1"
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new("https://" + c.address + webhookPath), CABundle: c.ca},
		},
	}
	Expect(admin.Update(ctx, crd)).To(Succeed())
	c.admin, c.crd = admin, crd
	return c
}

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// Scenario: Cluster API's conversion webhook is away, or has a certificate that the CRD does not know.
var _ = Describe("The conversion webhook of Cluster API", Ordered, func() {
	var (
		f         *fixture
		webhook   *converter
		namespace string
		cluster   *clusterv1.Cluster
	)
	BeforeAll(func(ctx context.Context) {
		// Its CRD differs from that of the control planes that are kept.
		s, err := stage.Start(ctx, stage.Options{Name: "conversion", Audit: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
		s.Values, s.Launch = importing.Values(), launch
		f = fixtureOn(ctx, s, env.Options{Name: "conversion-workload"})
		webhook = convertClusters(ctx, f)
		namespace = f.Namespace(ctx, nil)
	})

	// away stops the webhook, and has the CRD name another CA: the API server begins anew with the kind.
	away := func() {
		GinkgoHelper()
		webhook.stop()
		webhook.trust(webhook.stranger)
	}
	back := func(ctx context.Context) {
		GinkgoHelper()
		webhook.start(ctx)
		webhook.trust(webhook.ca)
	}
	reads := func(ctx context.Context) func() error {
		return func() error { return f.Client.Get(ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{}) }
	}
	// readiness is what probes have found, which the log has.
	readiness := func(ctx context.Context) func() string {
		return func() string {
			_ = f.Manager.Ready(ctx)
			return f.Manager.Logs()
		}
	}
	// checked is what "archelon check" finds.
	checked := func(ctx context.Context) check.Finding {
		GinkgoHelper()
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(os.WriteFile(kubeconfig, must(f.Management.Kubeconfig()), 0o600)).To(Succeed())
		command, out := check.Command(setup.ControllersOf, must(feature.NewGates())), &bytes.Buffer{}
		command.SetArgs([]string{"--kubeconfig=" + kubeconfig, "--output=json"})
		command.SetOut(out)
		command.SetErr(GinkgoWriter)
		command.SilenceUsage, command.SilenceErrors = true, true
		err := command.ExecuteContext(ctx)
		Expect(err).To(Or(BeNil(), MatchError(check.ErrMissing)))
		var document struct{ Items []check.Finding }
		Expect(json.Unmarshal(out.Bytes(), &document)).To(Succeed())
		for _, finding := range document.Items {
			if finding.ID == "capi-conversion" {
				return finding
			}
		}
		Fail("there is no such finding")
		return check.Finding{}
	}
	records := func(ctx context.Context) []client.Object {
		GinkgoHelper()
		list := &provisioningv1.ClusterList{}
		Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		objects := make([]client.Object, 0, len(list.Items))
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
		return objects
	}
	unready := MatchRegexp(`checker="capi-conversion" error="conversion webhook for cluster.x-k8s.io/v1beta1, Kind=Cluster failed: .*` + webhookPath)
	names := And(ContainSubstring("conversion webhook for cluster.x-k8s.io/v1beta1, Kind=Cluster failed"), ContainSubstring(webhookPath))

	It("is away while the manager runs: nothing is deleted, readiness and an Event name it, and all goes on", func(ctx context.Context) {
		f.run(ctx)
		cluster = f.Cluster(ctx, namespace, "prod", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		before := records(ctx)
		Expect(before).To(HaveLen(1))

		away()
		Eventually(reads(ctx)).Should(MatchError(names))
		Eventually(readiness(ctx)).Should(unready)
		Expect(checked(ctx)).To(And(HaveField("State", check.Error), HaveField("Message", names)))
		Expect(f.Client.Delete(ctx, before[0])).To(Succeed())
		Eventually(func() []string {
			list := &eventsv1.EventList{}
			Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			var notes []string
			for i := range list.Items {
				if list.Items[i].Reason == "ConversionWebhookFailed" {
					notes = append(notes, list.Items[i].Note)
				}
			}
			return notes
		}).Should(ContainElement(ContainSubstring("check Deployment capi-controller-manager")))
		Consistently(func() []client.Object { return records(ctx) }).Should(HaveExactElements(
			HaveField("GetUID()", before[0].GetUID())), "its removal cannot be noted on the CAPI Cluster")
		Expect(f.Manager.Done()).NotTo(BeClosed())

		back(ctx)
		Eventually(reads(ctx)).Should(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		Eventually(f.Manager.Ready).WithContext(ctx).Should(Succeed())
		Expect(checked(ctx)).To(HaveField("State", check.OK))
		Expect(importing.Current(ctx, f.Client, cluster).DeletionTimestamp).To(BeNil())
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, importing.ImportedKey)
			o.SetAnnotations(annotations)
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Manager.Stop()).To(Succeed())
	})

	It("has a certificate that the CRD does not know when the manager starts: it waits, says so, and goes on", func(ctx context.Context) {
		before := records(ctx)
		Expect(before).To(HaveLen(1))
		webhook.trust(webhook.stranger)
		Eventually(reads(ctx)).Should(MatchError(ContainSubstring("x509")))

		m, err := f.StartManager(ctx, manager, GinkgoWriter, "-v=1")
		Expect(err).NotTo(HaveOccurred())
		f.Manager = m
		DeferCleanup(func() { _ = m.Stop() })
		Eventually(readiness(ctx)).Should(And(unready, ContainSubstring("x509"),
			ContainSubstring("waiting for the conversion webhook of Cluster API")))
		Expect(m.Ready(ctx)).NotTo(Succeed())
		Consistently(func() []client.Object { return records(ctx) }).Should(HaveExactElements(And(
			HaveField("GetUID()", before[0].GetUID()), HaveField("GetDeletionTimestamp()", BeNil()))))
		Expect(m.Done()).NotTo(BeClosed())

		webhook.trust(webhook.ca)
		Eventually(m.Ready).WithContext(ctx).Should(Succeed())
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
		Eventually(func() []client.Object { return records(ctx) }).Should(BeEmpty())
	})
})
