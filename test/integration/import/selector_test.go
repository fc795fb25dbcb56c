package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: an administrator has clusters imported that nobody labels.
var _ = Describe("A selector of the installation", func() {
	for _, strategy := range importing.Strategies() {
		It("imports what it selects, unless a label says otherwise, and disconnects nothing when it changes, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "selector-" + strategy})
			namespace, closed := f.Namespace(ctx, nil), f.Namespace(ctx, map[string]string{importing.ImportLabel: "false"})
			fits := func(c *clusterv1.Cluster) {
				c.Labels = map[string]string{"env": "prod"}
				c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
			}
			message := func(cluster *clusterv1.Cluster) func() string {
				return func() string {
					return conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)
				}
			}
			records := func(clusters ...*clusterv1.Cluster) func() []client.Object {
				return func() []client.Object {
					var all []client.Object
					for _, cluster := range clusters {
						all = append(all, f.Look(ctx).Records(strategy, cluster)...)
					}
					return all
				}
			}
			f.run(ctx, importing.Gate(strategy), "--import-selector=env=prod", "--import-class=quick", "--import-namespace=*")
			cluster := f.Cluster(ctx, namespace, "prod", fits)
			others := []*clusterv1.Cluster{
				f.ClusterWith(ctx, namespace, "other-labels", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Labels["env"] = "dev" }),
				f.ClusterWith(ctx, namespace, "other-class", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "slow" }),
				f.ClusterWith(ctx, namespace, "refused", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Labels[importing.ImportLabel] = "false" }),
				f.ClusterWith(ctx, closed, "refused-above", []byte("none"), fits),
			}
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(message(cluster)()).To(BeEmpty())
			Consistently(records(others...)).Should(BeEmpty())
			for _, other := range others {
				Expect(f.Reason(ctx, other)()).To(Equal("none"))
			}
			before := records(cluster)()
			Expect(before).To(HaveLen(1))

			By("a mistake in the selector disconnects nothing, and is told")
			Expect(f.Manager.Stop()).To(Succeed())
			f.run(ctx, importing.Gate(strategy), "--import-selector=env=typo")
			Eventually(message(cluster)).Should(ContainSubstring("no label or selector selects this Cluster any more"))
			Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))
			Expect(records(cluster)()[0].GetUID()).To(Equal(before[0].GetUID()))

			By("the label takes it out of Rancher")
			f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
			Eventually(records(cluster)).Should(BeEmpty())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
			f.expectNoAgent(ctx)
		})
	}
})
