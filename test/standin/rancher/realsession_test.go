package rancher_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

var _ = Describe("A real agent", func() {
	It("is what makes its cluster connected, and is reported", func(ctx SpecContext) {
		s := startReal(ctx)
		newCluster(ctx, "c-real1")
		apply(ctx, download(ctx, s, "c-real1"), nil)
		Consistently(connectedTo(s, "c-real1")).Should(BeFalse(), "nothing is played")
		first := run(ctx)
		Eventually(clusterConditions("c-real1")).WithContext(ctx).Should(And(
			HaveKeyWithValue("Provisioned", "True"), HaveKeyWithValue("AgentDeployed", "True"), HaveKeyWithValue("Ready", "False/Disconnected")))
		Consistently(connectedTo(s, "c-real1")).Should(BeFalse(), "it was started without features and only registers")
		p := rollReal(ctx, s, "c-real1", 1)
		first.stop()
		Eventually(clusterConditions("c-real1")).WithContext(ctx).Should(And(
			HaveKeyWithValue("Connected", "True"), HaveKeyWithValue("Ready", "True"), HaveKeyWithValue("AgentDeployed", "True")))
		workload, _ := s.Connected("c-real1")
		Expect(workload).To(Equal("downstream"))
		live, err := get(ctx, management, clusterGVK, "", "c-real1")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(live, "status", "apiEndpoint")).To(Equal(strings.TrimSuffix(workloadPlane.Config.Host, "/")))
		Expect(field(live, "status", "caCert")).NotTo(BeEmpty())
		Eventually(func(ctx context.Context) (string, error) {
			live, err := get(ctx, management, clusterGVK, "", "c-real1")
			return field(live, "status", "version", "gitVersion"), err
		}).WithContext(ctx).Should(HavePrefix("v1."))
		p.stop()
		Eventually(clusterConditions("c-real1")).WithContext(ctx).Should(And(
			HaveKeyWithValue("Connected", "False"), HaveKeyWithValue("Ready", "False/Disconnected")))
		Expect(string(p.log.Contents())).NotTo(ContainSubstring(tokenOf(ctx, "c-real1")))
	})

	It("is refused while connections are held", func(ctx SpecContext) {
		s := startReal(ctx)
		newCluster(ctx, "c-real2")
		apply(ctx, download(ctx, s, "c-real2"), nil)
		s.HoldConnect(true)
		p := run(ctx)
		Eventually(p.log).Should(gbytes.Say("status 503: Rancher takes no agents"))
		Expect(connectedTo(s, "c-real2")()).To(BeFalse())
		s.HoldConnect(false)
		rollReal(ctx, s, "c-real2", 1)
		s.HoldConnect(true)
		Consistently(connectedTo(s, "c-real2")).Should(BeTrue(), "a session stays")
	})

	It("stays with a CA that changes, and does not come back with the old checksum", func(ctx SpecContext) {
		s := startReal(ctx)
		p := joinReal(ctx, s, "c-real3")
		Expect(s.RotateCA(ctx)).To(Succeed())
		Consistently(connectedTo(s, "c-real3")).Should(BeTrue())
		p.stop()
		p = run(ctx)
		Eventually(p.log).Should(gbytes.Say("the CA of Rancher has checksum .* but this agent was installed with"))
		Expect(connectedTo(s, "c-real3")()).To(BeFalse())
		p.stop()
		applyAgain(ctx, download(ctx, s, "c-real3"))
		run(ctx)
		Eventually(connectedTo(s, "c-real3")).Should(BeTrue())
	})

	It("does not connect to a server whose certificate is not of the CA that it was told", func(ctx SpecContext) {
		s := startReal(ctx)
		newCluster(ctx, "c-real4")
		setting, err := get(ctx, management, settingGVK, "", "cacerts")
		Expect(err).NotTo(HaveOccurred())
		Expect(change(ctx, setting, func(u *unstructured.Unstructured) {
			u.Object["value"] = string(pem.EncodeToMemory(firstBlock(workloadPlane.Config.CAData)))
		})).To(Succeed())
		apply(ctx, download(ctx, s, "c-real4"), nil)
		p := run(ctx)
		Eventually(p.log).Should(gbytes.Say("certificate signed by unknown authority"))
		Expect(connectedTo(s, "c-real4")()).To(BeFalse())
	})

	It("does not trust a private CA without a checksum", func(ctx SpecContext) {
		s := startReal(ctx)
		newCluster(ctx, "c-real5")
		apply(ctx, download(ctx, s, "c-real5"), nil)
		p := run(ctx, func(o *agent.Options) { o.CAChecksum = "" })
		Eventually(p.log).Should(gbytes.Say("certificate signed by unknown authority"))
		Expect(connectedTo(s, "c-real5")()).To(BeFalse())
	})

	It("comes back with its old token as long as the token's grace lasts", func(ctx SpecContext) {
		s := startReal(ctx, func(o *rancher.Options) { o.Timings.TokenGrace = time.Hour })
		p := joinReal(ctx, s, "c-real6")
		old := mount(ctx, credentialsOf(ctx))
		Expect(s.RotateToken(ctx, "c-real6")).To(Succeed())
		Consistently(connectedTo(s, "c-real6")).Should(BeTrue(), "a session stays")
		p.stop()
		p = run(ctx, func(o *agent.Options) { o.Credentials = old })
		Eventually(p.log).Should(gbytes.Say("msg=connected"))
	})

	It("does not come back with its old token when the token's grace is over", func(ctx SpecContext) {
		s := startReal(ctx, func(o *rancher.Options) { o.Timings.TokenGrace = time.Second })
		p := joinReal(ctx, s, "c-reala")
		old := mount(ctx, credentialsOf(ctx))
		Expect(s.RotateToken(ctx, "c-reala")).To(Succeed())
		Eventually(func() int { return s.Reapplies("c-reala") }).Should(BeNumerically(">=", 2), "Rancher hands the new one out")
		p.stop()
		Eventually(func() []byte {
			p := run(ctx, func(o *agent.Options) { o.Credentials = old })
			defer p.stop()
			Eventually(p.log).Should(gbytes.Say("level=WARN|msg=connected"))
			return p.log.Contents()
		}).Should(ContainSubstring("status 401: its token is not valid"))
		run(ctx)
		Eventually(connectedTo(s, "c-reala")).Should(BeTrue())
	})

	It("is replaced by a new Pod without a moment in which none is connected", func(ctx SpecContext) {
		s := startReal(ctx)
		first := joinReal(ctx, s, "c-real7")
		versions := record(ctx, "c-real7")
		second := run(ctx)
		Eventually(second.log).Should(gbytes.Say("msg=connected"))
		first.stop()
		Consistently(connectedTo(s, "c-real7")).Should(BeTrue())
		for _, version := range versions() {
			Expect(conditions(version)).To(HaveKeyWithValue("Connected", "True"))
		}
		third := run(ctx)
		Eventually(third.log).Should(gbytes.Say("msg=connected"))
		third.stop() // a new Pod that fails leaves the old one
		Consistently(connectedTo(s, "c-real7")).Should(BeTrue())
		plain := run(ctx, func(o *agent.Options) { o.Features = "" })
		Eventually(plain.log).Should(gbytes.Say("msg=connected"))
		Consistently(connectedTo(s, "c-real7")).Should(BeTrue(), "one that only registers takes nothing away")
		second.stop()
		Eventually(connectedTo(s, "c-real7")).Should(BeFalse())
	})

	It("loses Rancher when it is down, and finds it again", func(ctx SpecContext) {
		s := startReal(ctx)
		p := joinReal(ctx, s, "c-real8")
		s.Down()
		Expect(connectedTo(s, "c-real8")()).To(BeFalse())
		Eventually(p.log).Should(gbytes.Say("connection refused"))
		Expect(s.Up(ctx)).To(Succeed())
		Eventually(connectedTo(s, "c-real8")).Should(BeTrue())
	})

	It("is unreachable with its workload cluster", func(ctx SpecContext) {
		s := startReal(ctx)
		p := joinReal(ctx, s, "c-real9")
		s.RemoveWorkload("downstream")
		Expect(connectedTo(s, "c-real9")()).To(BeFalse())
		Eventually(p.log).Should(gbytes.Say("status 503: no workload cluster with its identity"))
		Expect(s.AddWorkload("back", workloadPlane.Config, rancher.RealAgent)).To(Succeed())
		Eventually(func() string { workload, _ := s.Connected("c-real9"); return workload }).Should(Equal("back"))
	})

	It("is not welcome where agents are played", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-real0")
		s.HoldConnect(true)
		apply(ctx, download(ctx, s, "c-real0"), nil)
		s.HoldConnect(false)
		p := run(ctx)
		Eventually(p.log).Should(gbytes.Say("status 503: no workload cluster with its identity"))
	})
})

// tokenOf returns the token of a cluster's default registration token, in placeholder mode.
func tokenOf(ctx context.Context, namespace string) string {
	GinkgoHelper()
	var token string
	Eventually(func(g Gomega, ctx context.Context) {
		token = secretToken(ctx, g, namespace, "crt-token-default-token")
	}).WithContext(ctx).Should(Succeed())
	return token
}

// credentialsOf returns the name of the Secret that the Deployment mounts.
func credentialsOf(ctx context.Context) string {
	GinkgoHelper()
	deployment := clusterAgent()
	Expect(workload.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	return deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName
}

func firstBlock(raw []byte) *pem.Block {
	GinkgoHelper()
	block, _ := pem.Decode(raw)
	Expect(block).NotTo(BeNil())
	return block
}

var _ = Describe("The place where agents connect", func() {
	It("refuses what is no agent", func(ctx SpecContext) {
		s := startReal(ctx)
		newCluster(ctx, "c-host1")
		token := tokenOf(ctx, "c-host1")
		good, err := agent.Params{SystemUID: "unknown", Cluster: agent.Access{Address: "10.0.0.1:443"}}.Encode()
		Expect(err).NotTo(HaveOccurred())
		for reason, tc := range map[string]struct {
			token, bearer, params, host string
			want                        int
		}{
			"nothing":                 {want: http.StatusUnauthorized},
			"no parameters":           {token: token, want: http.StatusBadRequest},
			"parameters not base64":   {token: token, params: "{}", want: http.StatusBadRequest},
			"parameters not JSON":     {token: token, params: "AAAA", want: http.StatusBadRequest},
			"empty parameters":        {token: token, params: "e30=", want: http.StatusBadRequest},
			"a list":                  {token: token, params: "W10=", want: http.StatusBadRequest},
			"too much":                {token: token, params: strings.Repeat("A", 300<<10), want: http.StatusRequestHeaderFieldsTooLarge},
			"a token of nobody":       {token: strings.Repeat("b", 54), params: good, want: http.StatusUnauthorized},
			"the placeholder":         {token: "{token}", params: good, want: http.StatusUnauthorized},
			"another server":          {token: token, params: good, host: "rancher.example.test", want: http.StatusMisdirectedRequest},
			"an unknown cluster":      {token: token, params: good, want: http.StatusServiceUnavailable},
			"an unknown, by a bearer": {bearer: token, params: good, want: http.StatusServiceUnavailable},
		} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+agent.ConnectPath, nil)
			Expect(err).NotTo(HaveOccurred())
			for header, value := range map[string]string{agent.TokenHeader: tc.token, agent.ParamsHeader: tc.params} {
				if value != "" {
					request.Header.Set(header, value)
				}
			}
			if tc.bearer != "" {
				request.Header.Set("Authorization", "Bearer "+tc.bearer)
			}
			if tc.host != "" {
				request.Host = tc.host
			}
			got, err := exchange(s.CACert(), request)
			Expect(err).NotTo(HaveOccurred(), reason)
			Expect(got.Status).To(Equal(tc.want), reason+": "+got.Body)
			Expect(got.Body).NotTo(ContainSubstring(token), reason)
		}
		Expect(connectedTo(s, "c-host1")()).To(BeFalse())
	})
})
