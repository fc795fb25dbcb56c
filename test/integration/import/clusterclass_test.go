package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

const (
	classNameKey      = "clusterclass-name.fleet.addons.cluster.x-k8s.io"
	classNamespaceKey = "clusterclass-namespace.fleet.addons.cluster.x-k8s.io"
)

// Scenario: Fleet chooses clusters by their ClusterClass.
var _ = Describe("The ClusterClass of a CAPI cluster", func() {
	for _, strategy := range strategies() {
		It("is in the labels of its Rancher cluster, as it is and as it becomes, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "class-" + strategy})
			namespace := f.namespace(ctx, nil)
			f.run(ctx, gate(strategy), "--cluster-class-labels")
			cluster := f.cluster(ctx, namespace, "prod", selected, func(c *clusterv1.Cluster) {
				c.Labels[classNameKey] = "forged"
				c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
			})
			labels := func() map[string]string {
				records := f.look(ctx).records(strategy, cluster)
				if len(records) != 1 {
					return nil
				}
				return records[0].GetLabels()
			}
			Eventually(labels).Should(And(HaveKeyWithValue(classNameKey, "quick"), HaveKeyWithValue(classNamespaceKey, namespace)))
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) {
				if c, ok := o.(*clusterv1.Cluster); ok {
					c.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Name: "other", Namespace: "classes"}
				}
			})
			Eventually(labels).Should(And(HaveKeyWithValue(classNameKey, "other"), HaveKeyWithValue(classNamespaceKey, "classes")))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		})
	}
})
