package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: an administrator has clusters imported that nobody labels.
var _ = Describe("A selector of the installation", func() {
	for _, strategy := range strategies() {
		It("imports what it selects, unless a label says otherwise, and disconnects nothing when it changes, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "selector-" + strategy})
			namespace, closed := f.namespace(ctx, nil), f.namespace(ctx, map[string]string{importLabel: "false"})
			fits := func(c *clusterv1.Cluster) {
				c.Labels = map[string]string{"env": "prod"}
				c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
			}
			message := func(cluster *clusterv1.Cluster) func() string {
				return func() string { return conditions.GetMessage(current(ctx, f, cluster), condition) }
			}
			records := func(clusters ...*clusterv1.Cluster) func() []client.Object {
				return func() []client.Object {
					var all []client.Object
					for _, cluster := range clusters {
						all = append(all, f.look(ctx).records(strategy, cluster)...)
					}
					return all
				}
			}
			f.run(ctx, gate(strategy), "--import-selector=env=prod", "--import-class=quick", "--import-namespace=*")
			cluster := f.cluster(ctx, namespace, "prod", fits)
			others := []*clusterv1.Cluster{
				f.clusterWith(ctx, namespace, "other-labels", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Labels["env"] = "dev" }),
				f.clusterWith(ctx, namespace, "other-class", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "slow" }),
				f.clusterWith(ctx, namespace, "refused", []byte("none"), fits, func(c *clusterv1.Cluster) { c.Labels[importLabel] = "false" }),
				f.clusterWith(ctx, closed, "refused-above", []byte("none"), fits),
			}
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(message(cluster)()).To(BeEmpty())
			Consistently(records(others...)).Should(BeEmpty())
			for _, other := range others {
				Expect(f.reason(ctx, other)()).To(Equal("none"))
			}
			before := records(cluster)()
			Expect(before).To(HaveLen(1))

			By("a mistake in the selector disconnects nothing, and is told")
			Expect(f.manager.Stop()).To(Succeed())
			f.run(ctx, gate(strategy), "--import-selector=env=typo")
			Eventually(message(cluster)).Should(ContainSubstring("nothing selects this cluster now"))
			Expect(f.reason(ctx, cluster)()).To(Equal("True/Imported"))
			Expect(records(cluster)()[0].GetUID()).To(Equal(before[0].GetUID()))

			By("the label takes it out of Rancher")
			f.choose(ctx, current(ctx, f, cluster), "false")
			Eventually(records(cluster)).Should(BeEmpty())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/NotSelected"))
			f.expectNoAgent(ctx)
		})
	}
})
