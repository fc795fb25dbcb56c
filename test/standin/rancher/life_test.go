package rancher_test

import (
	"github.com/archelon-io/archelon/test/standin/rancher"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("happy", func() {
	It("joins", func(ctx SpecContext) {
		s := start(ctx, nil)
		Expect(s.AddWorkload("w", workloadPlane.Config)).To(Succeed())
		c := join(ctx, s, "")
		u, _ := get(ctx, management, clusterGVK, "", c.GetName())
		GinkgoWriter.Println(u.Object)
		Eventually(func() int { return s.Reapplies(c.GetName()) }).Should(Equal(1))
		_ = rancher.TokenPlain
	})
	It("joins v1", func(ctx SpecContext) {
		s := start(ctx, nil)
		Expect(s.AddWorkload("w", workloadPlane.Config)).To(Succeed())
		newProvisioning(ctx, "default", "demo-capi")
		var name string
		Eventually(func(g Gomega) {
			u, err := get(ctx, management, provGVK, "default", "demo-capi")
			g.Expect(err).NotTo(HaveOccurred())
			name = field(u, "status", "clusterName")
			g.Expect(name).NotTo(BeEmpty())
		}).Should(Succeed())
		apply(ctx, download(ctx, s, name), nil)
		Eventually(func(g Gomega) {
			u, err := get(ctx, management, provGVK, "default", "demo-capi")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(u.Object["status"]).To(HaveKeyWithValue("ready", true))
			g.Expect(u.Object["status"]).To(HaveKeyWithValue("agentDeployed", true))
			g.Expect(u.Object["status"]).To(HaveKeyWithValue("clientSecretName", "demo-capi-kubeconfig"))
		}).Should(Succeed())
	})
})
