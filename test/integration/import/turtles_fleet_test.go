package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// A Turtles 0.28 with feature gate fleet-integration is played, as its source has it. It was not run.
var _ = Describe("Turtles, parked, with gate fleet-integration", func() {
	for _, strategy := range importing.Strategies() {
		It("holds up no deletion, while it runs and after it was switched off, "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{
				Name: "turtles-fleet-" + strategy, Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr },
			})
			f.StartFleet(ctx)
			endTurtles := f.StartTurtlesFleet(ctx)
			f.startManager(ctx, importing.Gate(strategy), "--turtles-parked", "--sync-period=1h")
			namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
			gone := func(cluster *clusterv1.Cluster) {
				GinkgoHelper()
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
				Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
				f.ExpectNothingLeft(ctx, cluster)
				kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster.Name + "-kubeconfig"}}
				Expect(f.Client.Delete(ctx, kubeconfig)).To(Succeed()) // as the control plane provider does
			}

			By("deleting a Cluster while Turtles runs")
			cluster := f.Cluster(ctx, namespace, "prod")
			fleet := f.held(ctx, strategy, cluster)
			gone(cluster)
			Eventually(f.K(ctx).Get(fleet)).Should(Satisfy(apierrors.IsNotFound))

			By("deleting a Cluster after the gate was switched off")
			cluster = f.Cluster(ctx, namespace, "prod")
			fleet = f.held(ctx, strategy, cluster)
			endTurtles()
			gone(cluster)
			Eventually(f.K(ctx).Object(fleet)).Should(HaveField("GetDeletionTimestamp()", Not(BeNil())))

			By("importing a Cluster of the same name beside the Fleet Cluster that stayed")
			again := f.Cluster(ctx, namespace, "prod")
			Eventually(f.Reason(ctx, again)).Should(Equal("True/Imported"))
			gone(again)

			By("removing the finalizer that nobody removes")
			f.Patch(ctx, importing.Current(ctx, f.Client, fleet), func(o client.Object) {
				controllerutil.RemoveFinalizer(o, importing.FleetClusterFinalizer)
			})
			Eventually(f.K(ctx).Get(fleet)).Should(Satisfy(apierrors.IsNotFound))
		})
	}
})

// held waits until a Cluster is imported and the played Turtles holds its Fleet Cluster, and returns that.
func (f *fixture) held(ctx context.Context, strategy string, cluster *clusterv1.Cluster) *unstructured.Unstructured {
	GinkgoHelper()
	Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	var fleet *unstructured.Unstructured
	if strategy == "v1" {
		record := f.V1Records(ctx, cluster)[0]
		fleet = importing.FleetCluster(record.Namespace, record.Name)
	} else {
		record := f.V3Records(ctx, cluster)[0]
		fleet = importing.FleetCluster(record.Spec.FleetWorkspaceName, record.Name)
	}
	Eventually(f.K(ctx).Object(fleet)).Should(HaveField("GetFinalizers()", ContainElement(importing.FleetClusterFinalizer)))
	return fleet
}
