// Package inventory is an example of a controller that runs across a fleet of clusters: it reports how many Pods each
// of them has. It knows neither Cluster API nor any provider of clusters.
package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// AddToManager adds the controller under a name. What it reports may be called from several goroutines.
func AddToManager(mgr mcmanager.Manager, name string, report func(cluster multicluster.ClusterName, pods int)) error {
	reconcile := func(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
		// An error here is a cluster that has left, which needs no more, or one that is not connected: that is tried again.
		cluster, err := mgr.GetCluster(ctx, request.ClusterName)
		if err != nil {
			return ctrl.Result{}, err
		}
		pods := podMetadataList()
		if err := cluster.GetClient().List(ctx, pods); err != nil {
			return ctrl.Result{}, fmt.Errorf("listing Pods: %w", err)
		}
		report(request.ClusterName, len(pods.Items))
		return ctrl.Result{}, nil
	}
	// Metadata is all that is counted, and a tenth of the memory.
	return mcbuilder.ControllerManagedBy(mgr).Named(name).
		For(&corev1.Pod{}, mcbuilder.OnlyMetadata).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{MaxConcurrentReconciles: 8}).
		Complete(mcreconcile.Func(reconcile))
}

func podMetadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	return list
}
