package import_test

import (
	"context"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario: Fleet's templates read annotations that tenants write, as far as the administrator allows it.
var _ = Describe("The annotations of a CAPI Cluster", func() {
	for _, strategy := range importing.Strategies() {
		It("reach its Fleet Cluster if they are allowed, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{
				Name: "annotations-" + strategy, Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr },
			})
			f.StartFleet(ctx)
			namespace := f.Namespace(ctx, nil)
			f.run(ctx, importing.Gate(strategy), "--propagated-annotation=example.com/*,cost.io/center")
			const tracking = "argocd.argoproj.io/tracking-id"
			cluster := f.Cluster(ctx, namespace, "prod", importing.Selected, func(c *clusterv1.Cluster) {
				c.Annotations = map[string]string{
					"example.com/region": "eu", "example.com/tier": "1", "cost.io/center": "42", "cost.io/owner": "me", tracking: "app:cluster",
				}
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			fleet := f.fleetCluster(ctx, strategy, cluster)
			annotations := func() map[string]string {
				found := fleet.DeepCopy()
				if f.Client.Get(ctx, client.ObjectKeyFromObject(fleet), found) != nil {
					return nil
				}
				return found.GetAnnotations()
			}
			has := func(region string) OmegaMatcher {
				return And(HaveKeyWithValue("example.com/region", region), HaveKeyWithValue("cost.io/center", "42"),
					Not(HaveKey("cost.io/owner")), Not(HaveKey(tracking)))
			}
			Eventually(annotations).Should(And(has("eu"), HaveKeyWithValue("example.com/tier", "1")))

			By("changing one, removing one, and adding one that is not allowed")
			set := func(change func(annotations map[string]string)) {
				GinkgoHelper()
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
					changed := maps.Clone(o.GetAnnotations())
					change(changed)
					o.SetAnnotations(changed)
				})
			}
			set(func(annotations map[string]string) {
				annotations["example.com/region"], annotations["cost.io/other"] = "us", "1"
				delete(annotations, "example.com/tier")
			})
			Eventually(annotations).Should(And(has("us"), Not(HaveKey("example.com/tier")), Not(HaveKey("cost.io/other"))))

			By("changing them in Rancher")
			management := f.managementOf(ctx, strategy, cluster)
			f.Patch(ctx, importing.Current(ctx, f.Client, management), func(o client.Object) {
				changed := maps.Clone(o.GetAnnotations())
				changed["example.com/region"], changed["example.com/of-rancher"] = "edited", "kept"
				delete(changed, "cost.io/center")
				o.SetAnnotations(changed)
			})
			Eventually(annotations).Should(And(has("us"), HaveKeyWithValue("example.com/of-rancher", "kept")))

			By("writing more than there is room for")
			set(func(annotations map[string]string) {
				annotations["example.com/large"] = strings.Repeat("x", 100<<10)
				delete(annotations, "cost.io/center")
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TooManyAnnotations"))
			Expect(annotations()).To(And(has("us"), Not(HaveKey("example.com/large"))))
			set(func(annotations map[string]string) { delete(annotations, "example.com/large") })
			Eventually(annotations).Should(And(HaveKeyWithValue("example.com/region", "us"), Not(HaveKey("cost.io/center"))))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))

			By("allowing fewer")
			Expect(f.Manager.Stop()).To(Succeed())
			f.run(ctx, importing.Gate(strategy), "--propagated-annotation=cost.io/center")
			Eventually(annotations).Should(And(Not(HaveKey("example.com/region")), HaveKeyWithValue("example.com/of-rancher", "kept")))
		})
	}
})

// managementOf returns the v3 Rancher cluster of an imported Cluster.
func (f *fixture) managementOf(ctx context.Context, strategy string, cluster *clusterv1.Cluster) *managementv3.Cluster {
	GinkgoHelper()
	if strategy == "v1" {
		name := f.V1Records(ctx, cluster)[0].Status.ClusterName
		return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &f.V3Records(ctx, cluster)[0]
}
