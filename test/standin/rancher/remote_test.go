package rancher_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/standin/rancher"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

// remotely returns a stand-in as it is reached through the API server's proxy for Services, and
// what failed without a word.
func remotely(s *rancher.Standin, light remote.Light) (*remote.Remote, *[]error) {
	GinkgoHelper()
	const path = "/api/v1/namespaces/cattle-system/services/rancher:control/proxy"
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, remote.Handler(s, light)))
	server := httptest.NewServer(mux)
	DeferCleanup(server.Close)
	var failures []error
	r := remote.Dial(&rest.Config{Host: server.URL}, "cattle-system", "rancher", "control", func(err error) { failures = append(failures, err) })
	DeferCleanup(r.Stop)
	return r, &failures
}

var _ = Describe("A remote stand-in", func() {
	It("does what the stand-in does", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		s.RemoveWorkload("downstream")
		r, failures := remotely(s, nil)
		Expect(r.Ready(ctx)).To(Succeed())
		Expect(r.URL()).To(Equal(s.URL()))
		Expect(r.CACert()).To(Equal(s.CACert()))

		By("holding tokens")
		Expect(r.HoldTokens(ctx, true)).To(Succeed())
		newCluster(ctx, "c-rem01")
		Eventually(clusterConditions("c-rem01")).WithContext(ctx).Should(HaveKey("Connected"))
		Consistently(tokenField("c-rem01", "default-token", "status", "manifestUrl")).WithContext(ctx).Should(BeEmpty())
		Expect(r.HoldTokens(ctx, false)).To(Succeed())

		By("failing downloads")
		url := manifestURL(ctx, "c-rem01", "default-token")
		r.SetFault(rancher.Fault{Cluster: "c-rem01", Kind: rancher.FaultStatus, Status: 502})
		got, err := fetch(ctx, s.CACert(), url)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Status).To(Equal(502))
		r.ClearFaults()
		manifest := download(ctx, s, "c-rem01")
		Expect(r.ImportRequests()).To(HaveExactElements(
			And(HaveField("Cluster", "c-rem01"), HaveField("Status", 502), HaveField("Time", BeTemporally("~", time.Now(), time.Minute))),
			HaveField("Status", 200)))

		By("registering a workload cluster")
		r.HoldConnect(true)
		Expect(r.AddWorkload("far", workloadPlane.Config)).To(Succeed())
		apply(ctx, manifest, nil)
		connected := func() string { workload, _ := r.Connected("c-rem01"); return workload }
		Consistently(connected).Should(BeEmpty())
		r.HoldConnect(false)
		Eventually(connected).Should(Equal("far"))
		Eventually(func() int { return r.Reapplies("c-rem01") }).Should(Equal(1))

		By("rotating")
		token := tokenOf(ctx, "c-rem01")
		Expect(r.RotateToken(ctx, "c-rem01")).To(Succeed())
		Expect(tokenOf(ctx, "c-rem01")).NotTo(Equal(token))
		ca := r.CACert()
		Expect(r.RotateCA(ctx)).To(Succeed())
		Expect(r.CACert()).NotTo(Equal(ca))

		By("changing settings")
		Expect(r.SetServerURL(ctx, "https://elsewhere.example.test")).To(Succeed())
		Expect(r.SetAgentTLSMode(ctx, "system-store")).To(Succeed())
		for name, want := range map[string]string{"server-url": "https://elsewhere.example.test", "agent-tls-mode": "system-store"} {
			setting, err := get(ctx, management, settingGVK, "", name)
			Expect(err).NotTo(HaveOccurred())
			Expect(field(setting, "value")).To(Equal(want))
		}
		Expect(r.SetServerURL(ctx, s.URL())).To(Succeed())
		Expect(r.SetAgentTLSMode(ctx, "")).To(Succeed())

		By("going down")
		r.Down()
		_, err = fetch(ctx, s.CACert(), s.URL()+"/ping")
		Expect(err).To(HaveOccurred())
		Expect(r.Up(ctx)).To(Succeed())
		got, err = fetch(ctx, s.CACert(), s.URL()+"/ping")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Body).To(Equal("pong"))
		r.RemoveWorkload("far")
		Expect(connected()).To(BeEmpty())
		Expect(*failures).To(BeEmpty())
	})

	It("registers a cluster with a real agent", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		s.RemoveWorkload("downstream")
		r, _ := remotely(s, nil)
		Expect(r.AddWorkload("far", workloadPlane.Config, rancher.RealAgent)).To(Succeed())
		joinReal(ctx, s, "c-rem02")
		where, ok := r.Connected("c-rem02")
		Expect(ok).To(BeTrue())
		Expect(where).To(Equal("far"))
	})

	It("serves light workload clusters", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.StateNamespace = "kept-state" })
		s.RemoveWorkload("downstream")
		address := freeAddress(ctx)
		_, port, err := net.SplitHostPort(address)
		Expect(err).NotTo(HaveOccurred())
		servers, err := workloadserver.StartAt(ctx, workloadserver.Options{Listen: ":" + port, URL: "https://localhost:" + port}, func(workloadserver.Request) {})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(servers.Stop)
		DeferCleanup(s.Stop) // its watches hold the servers
		r, failures := remotely(s, servers)
		Expect(r.AddLight("light-1")).To(Succeed())
		kubeconfig, err := r.LightKubeconfig("light-1")
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://localhost:" + port + "/clusters/light-1"))
		light, err := dynamic.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())

		cluster := newCluster(ctx, "c-light")
		for _, u := range documents(download(ctx, s, "c-light")) {
			if u.GetKind() == "ClusterRoleBinding" {
				u.SetNamespace("") // the stray one
			}
			resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind()) // there is no discovery
			_, err := light.Resource(resource).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(func() string { workload, _ := r.Connected("c-light"); return workload }).Should(Equal("light-1"))
		Expect(r.AddLight("../light")).To(MatchError(ContainSubstring("cannot be called")))
		kept := &corev1.Secret{}
		err = management.Get(ctx, client.ObjectKey{Namespace: "kept-state", Name: "rancher-standin-workloads"}, kept)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(kept.Data).NotTo(HaveKey("light-1"), "it ends with the stand-in")
		Expect(*failures).To(BeEmpty())
		remove(ctx, cluster)
	})

	It("hands on what goes wrong", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[1])
		r, failures := remotely(s, nil)
		Expect(r.RotateToken(ctx, "c-none")).To(MatchError(ContainSubstring("tokens rotate in placeholder mode only")))
		Expect(r.AddWorkload("", workloadPlane.Config)).To(MatchError(ContainSubstring("needs a name and a host")))
		Expect(r.AddWorkload("plugin", &rest.Config{Host: "https://x", Username: "u", Password: "p"})).To(MatchError(ContainSubstring("certificate or a token")))
		Expect(*failures).To(BeEmpty())
		r.SetFault(rancher.Fault{Kind: "nonsense"})
		Expect(*failures).To(HaveExactElements(MatchError(ContainSubstring("there is no fault \"nonsense\""))))

		gone := remote.Dial(&rest.Config{Host: "https://127.0.0.1:1"}, "ns", "rancher", "8080", func(err error) { *failures = append(*failures, err) })
		Expect(gone.Ready(ctx)).NotTo(Succeed())
		gone.HoldConnect(true)
		Expect(gone.URL()).To(BeEmpty())
		Expect(*failures).To(HaveLen(3))
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		Expect(r.Up(cancelled)).To(MatchError(context.Canceled))
	})
})
