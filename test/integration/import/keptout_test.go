package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

const keptOutKey = "archelon.io/imported"

// Scenario: the annotation that keeps a cluster out of Rancher has a prefix, beside the one that Turtles has, too.
var _ = Describe("The annotation archelon.io/imported", func() {
	for _, strategy := range strategies() {
		It("keeps a cluster out of Rancher, or lets it in whatever the other one says, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "keptout-" + strategy})
			f.run(ctx, gate(strategy))
			cluster := f.cluster(ctx, f.namespace(ctx, nil), "prod", selected, func(c *clusterv1.Cluster) { setAnnotation(c, keptOutKey, "true") })
			annotate := func(value string) {
				GinkgoHelper()
				f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, keptOutKey, value) })
			}
			records := func() []client.Object { return f.look(ctx).records(strategy, cluster) }
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			annotate("no")
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(records()).To(BeEmpty())

			annotate("false")
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			first := records()
			Expect(first).To(HaveLen(1))

			By("it is imported again when it is deleted in Rancher")
			Expect(f.Client.Delete(ctx, first[0])).To(Succeed())
			Eventually(func() map[string]string { return current(ctx, f, cluster).Annotations }).Should(HaveKeyWithValue(importedKey, "true"))
			Eventually(records).Should(HaveExactElements(HaveField("GetUID()", Not(Equal(first[0].GetUID())))))
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))

			By("it is not when the annotation says so")
			annotate("true")
			Expect(f.Client.Delete(ctx, records()[0])).To(Succeed())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Eventually(records).Should(BeEmpty())
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			f.expectNothingLeft(ctx, cluster)
		})
	}
})
