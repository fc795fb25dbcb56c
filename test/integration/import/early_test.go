package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
)

const earlyKey = "archelon.io/early-import"

// Scenario: a cluster shows in Rancher before its control plane is available, because somebody asks for it.
var _ = Describe("An early import", func() {
	for _, strategy := range strategies() {
		describeEarlyImport(strategy)
	}
})

func describeEarlyImport(strategy string) {
	var (
		f         *fixture
		namespace string
	)
	early := func(value string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { setAnnotation(c, earlyKey, value) }
	}
	// unborn creates a CAPI cluster without a control plane: nothing is in its status, and there is no kubeconfig.
	unborn := func(ctx context.Context, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := builder.Cluster(namespace, name)
		for _, c := range change {
			c(cluster)
		}
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		return cluster
	}
	records := func(ctx context.Context, cluster *clusterv1.Cluster) func() []client.Object {
		return func() []client.Object { return f.look(ctx).records(strategy, cluster) }
	}
	waits := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Eventually(records(ctx, cluster)).Should(HaveLen(1))
		Eventually(func() string { return conditions.GetMessage(current(ctx, f, cluster), condition) }).
			Should(ContainSubstring("The Rancher cluster is there before the control plane"))
		Consistently(f.reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
		Expect(f.agent(ctx)).To(BeNil())
	}
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		f.expectNothingLeft(ctx, cluster)
	}

	Describe("as "+strategy, Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "early-" + strategy})
			namespace = f.namespace(ctx, nil)
		})

		It("creates the Rancher cluster at once, and touches the workload cluster when its control plane is available", func(ctx context.Context) {
			f.run(ctx, gate(strategy))
			cluster := unborn(ctx, "prod", selected, early("true"))
			waits(ctx, cluster)
			uid := records(ctx, cluster)()[0].GetUID()

			kubeconfig, err := f.workload.Kubeconfig()
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, "prod", kubeconfig))).To(Succeed())
			Consistently(f.reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
			Expect(f.agent(ctx)).To(BeNil())
			f.status(ctx, cluster, builder.ControlPlaneUp)
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(records(ctx, cluster)()).To(HaveExactElements(HaveField("GetUID()", uid)))
			end(ctx, cluster)
		})

		It("ends with its cluster, or with the label, although there never was a control plane", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--early-import")
			cluster := unborn(ctx, "never", selected)
			waits(ctx, cluster)
			end(ctx, cluster)

			cluster = unborn(ctx, "un-imported", selected)
			waits(ctx, cluster)
			f.choose(ctx, current(ctx, f, cluster), "false")
			Eventually(records(ctx, cluster)).Should(BeEmpty())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/NotSelected"))
			end(ctx, cluster)

			By("an annotation wins over the flag")
			cluster = unborn(ctx, "late", selected, early("false"))
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
			Consistently(records(ctx, cluster)).Should(BeEmpty())
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, earlyKey, "soon") })
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(records(ctx, cluster)()).To(BeEmpty())
			end(ctx, cluster)
		})
	})
}
