package fleetcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Backoff of what could not be read or written.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// Options of the controller.
type Options struct {
	// Concurrency is the number of Clusters that are worked on at the same time.
	Concurrency int
	// Rancher is the cache of Rancher's cluster.
	Rancher cache.Cache
}

// The indexes find the v3 Rancher clusters of a CAPI Cluster, and the Fleet Cluster of a v3 Rancher cluster.
const (
	ownerIndex   = "archelon-fleet-owner"
	rancherIndex = "archelon-fleet-rancher"
)

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if r.Client == nil || r.Rancher == nil || options.Rancher == nil || options.Concurrency < 1 {
		return errors.New("labels of Fleet Clusters need two clients, a cache of Rancher's cluster and a concurrency")
	}
	byOwner := valueOf(archelonv1.OwnerUIDLabel)
	if err := options.Rancher.IndexField(ctx, &managementv3.Cluster{}, ownerIndex, byOwner); err != nil {
		return fmt.Errorf("indexing v3 Rancher clusters: %w", err)
	}
	if err := options.Rancher.IndexField(ctx, fleetCluster(), rancherIndex, valueOf(rancherLabel)); err != nil {
		return fmt.Errorf("indexing Fleet Clusters: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(clusterChanged())).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, &managementv3.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestOfOwner), rancherChanged(),
		)).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, fleetCluster(), handler.EnqueueRequestsFromMapFunc(r.requestOfFleet), labelsChanged(),
		)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
			// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait.
			UsePriorityQueue: new(false),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// valueOf indexes objects by the value of a label.
func valueOf(key string) client.IndexerFunc {
	return func(object client.Object) []string {
		if value := object.GetLabels()[key]; value != "" {
			return []string{value}
		}
		return nil
	}
}

// requestOfOwner names the CAPI Cluster that a Rancher cluster was created for.
func requestOfOwner(_ context.Context, object client.Object) []reconcile.Request {
	labels := object.GetLabels()
	key := types.NamespacedName{Namespace: labels[archelonv1.OwnerNamespaceLabel], Name: labels[archelonv1.OwnerNameLabel]}
	if key.Namespace == "" || key.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// requestOfFleet names the CAPI Cluster of a Fleet Cluster. If its Rancher cluster is not in the cache yet, the arrival
// of that wakes the CAPI Cluster.
func (r *Reconciler) requestOfFleet(ctx context.Context, fleet client.Object) []reconcile.Request {
	rancher := &managementv3.Cluster{}
	if r.Rancher.Get(ctx, client.ObjectKey{Name: fleet.GetLabels()[rancherLabel]}, rancher) != nil {
		return nil
	}
	return requestOfOwner(ctx, rancher)
}

// clusterChanged admits Clusters that come, their class, by which instance they are imported, and the end of a pause.
func clusterChanged() predicate.Predicate {
	says := func(object client.Object) [2]string {
		return [2]string{object.GetAnnotations()[archelonv1.InstanceAnnotation], object.GetLabels()[clusterv1.WatchLabel]}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || before.UID != after.UID || before.ResourceVersion == after.ResourceVersion ||
			before.Spec.Topology.ClassRef != after.Spec.Topology.ClassRef || says(before) != says(after) ||
			annotations.IsPaused(before, before) != annotations.IsPaused(after, after)
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// rancherChanged admits what says whose a Rancher cluster is, and where its Fleet Cluster is. Rancher writes the rest
// often.
func rancherChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*managementv3.Cluster)
		after, ok2 := e.ObjectNew.(*managementv3.Cluster)
		return !ok || !ok2 || before.UID != after.UID || before.Spec.FleetWorkspaceName != after.Spec.FleetWorkspaceName ||
			!maps.Equal(before.Labels, after.Labels)
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// labelsChanged admits what is read of a Fleet Cluster. Fleet writes its status often.
func labelsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() || before.GetResourceVersion() == after.GetResourceVersion() ||
			!maps.Equal(before.GetLabels(), after.GetLabels())
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}
