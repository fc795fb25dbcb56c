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

const (
	classNameKey      = "clusterclass-name.fleet.addons.cluster.x-k8s.io"
	classNamespaceKey = "clusterclass-namespace.fleet.addons.cluster.x-k8s.io"
)

// Scenario: Fleet chooses clusters by their ClusterClass.
var _ = Describe("The ClusterClass of a CAPI cluster", func() {
	for _, strategy := range importing.Strategies() {
		It("is in the labels of its Rancher cluster, as it is and as it becomes, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "class-" + strategy})
			namespace := f.Namespace(ctx, nil)
			f.run(ctx, importing.Gate(strategy), "--cluster-class-labels")
			cluster := f.Cluster(ctx, namespace, "prod", importing.Selected, func(c *clusterv1.Cluster) {
				c.Labels[classNameKey] = "forged"
				c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
			})
			labels := func() map[string]string {
				records := f.Look(ctx).Records(strategy, cluster)
				if len(records) != 1 {
					return nil
				}
				return records[0].GetLabels()
			}
			Eventually(labels).Should(And(HaveKeyWithValue(classNameKey, "quick"), HaveKeyWithValue(classNamespaceKey, namespace)))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				if c, ok := o.(*clusterv1.Cluster); ok {
					c.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Name: "other", Namespace: "classes"}
				}
			})
			Eventually(labels).Should(And(HaveKeyWithValue(classNameKey, "other"), HaveKeyWithValue(classNamespaceKey, "classes")))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		})
	}
})
