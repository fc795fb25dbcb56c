package rancher_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/standin/rancher"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

// remotely returns a stand-in as it is reached through the API server's proxy for Services, and what failed without a word.
func remotely(s *rancher.Standin) (*remote.Remote, *[]error) {
	GinkgoHelper()
	const path = "/api/v1/namespaces/cattle-system/services/rancher:control/proxy"
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, remote.Handler(s)))
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
		r, failures := remotely(s)
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
		token := tokenOf(ctx, "c-rem01", "default-token")
		Expect(r.RotateToken(ctx, "c-rem01")).To(Succeed())
		Expect(tokenOf(ctx, "c-rem01", "default-token")).NotTo(Equal(token))
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
		r, _ := remotely(s)
		Expect(r.AddWorkload("far", workloadPlane.Config, rancher.RealAgent)).To(Succeed())
		joinReal(ctx, s, "c-rem02")
		where, ok := r.Connected("c-rem02")
		Expect(ok).To(BeTrue())
		Expect(where).To(Equal("far"))
	})

	It("hands on what goes wrong", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[1])
		r, failures := remotely(s)
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
