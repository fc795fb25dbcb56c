package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const keptOutKey = "archelon.io/imported"

// Scenario: the annotation that keeps a cluster out of Rancher has a prefix, beside the one that Turtles has, too.
var _ = Describe("The annotation archelon.io/imported", func() {
	for _, strategy := range importing.Strategies() {
		It("keeps a cluster out of Rancher, or lets it in whatever the other one says, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "keptout-" + strategy})
			f.run(ctx, importing.Gate(strategy))
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected, func(c *clusterv1.Cluster) { importing.SetAnnotation(c, keptOutKey, "true") })
			annotate := func(value string) {
				GinkgoHelper()
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, keptOutKey, value) })
			}
			records := func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			annotate("no")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(records()).To(BeEmpty())

			annotate("false")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			first := records()
			Expect(first).To(HaveLen(1))

			By("it is imported again when it is deleted in Rancher")
			Expect(f.Client.Delete(ctx, first[0])).To(Succeed())
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, cluster).Annotations }).
				Should(HaveKeyWithValue(importing.ImportedKey, "true"))
			Eventually(records).Should(HaveExactElements(HaveField("GetUID()", Not(Equal(first[0].GetUID())))))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))

			By("it is not when the annotation says so")
			annotate("true")
			Expect(f.Client.Delete(ctx, records()[0])).To(Succeed())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Eventually(records).Should(BeEmpty())
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})
	}
})
