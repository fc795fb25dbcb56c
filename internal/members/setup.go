package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
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

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Rancher == nil || options.Concurrency < 1 {
		return errors.New("members need a cache of Rancher's cluster, and a concurrency of at least 1")
	}
	if err := r.complete(); err != nil {
		return err
	}
	for _, object := range []client.Object{&managementv3.Cluster{}, &managementv3.ClusterRoleTemplateBinding{}} {
		if err := options.Rancher.IndexField(ctx, object, ownerIndex, ownerUID); err != nil {
			return fmt.Errorf("indexing %T: %w", object, err)
		}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(clusterChanged())).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, &managementv3.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestOfOwner), rancherChanged(),
		)).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, &managementv3.ClusterRoleTemplateBinding{}, handler.EnqueueRequestsFromMapFunc(requestOfOwner), bindingChanged(),
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

// ownerIndex finds what was created for an incarnation of a CAPI Cluster.
const ownerIndex = "archelon-members-owner"

func ownerUID(object client.Object) []string {
	if uid := object.GetLabels()[archelonv1.OwnerUIDLabel]; uid != "" {
		return []string{uid}
	}
	return nil
}

// requestOfOwner names the CAPI Cluster that an object was created for.
func requestOfOwner(_ context.Context, object client.Object) []reconcile.Request {
	labels := object.GetLabels()
	key := types.NamespacedName{Namespace: labels[archelonv1.OwnerNamespaceLabel], Name: labels[archelonv1.OwnerNameLabel]}
	if key.Namespace == "" || key.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// clusterChanged admits Clusters that come, what people ask for on them, by which instance they are imported, and a
// condition that somebody changed.
func clusterChanged() predicate.Predicate {
	asks := func(object client.Object) [3]string {
		found := object.GetAnnotations()
		return [3]string{found[archelonv1.MembersAnnotation], found[archelonv1.InstanceAnnotation], object.GetLabels()[clusterv1.WatchLabel]}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || before.UID != after.UID || before.ResourceVersion == after.ResourceVersion || asks(before) != asks(after) ||
			annotations.IsPaused(before, before) != annotations.IsPaused(after, after) ||
			!equality.Semantic.DeepEqual(meta.FindStatusCondition(before.GetConditions(), archelonv1.RancherMembersCondition),
				meta.FindStatusCondition(after.GetConditions(), archelonv1.RancherMembersCondition))
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// rancherChanged admits what says which Rancher cluster is whose. Rancher writes the rest often.
func rancherChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !sameOwner(e.ObjectOld, e.ObjectNew) }}
}

// bindingChanged admits changes of what is in a binding.
func bindingChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*managementv3.ClusterRoleTemplateBinding)
		after, ok2 := e.ObjectNew.(*managementv3.ClusterRoleTemplateBinding)
		return !ok || !ok2 || !sameOwner(before, after) || !same(before, after)
	}}
}

func sameOwner(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() && before.GetDeletionTimestamp().IsZero() == after.GetDeletionTimestamp().IsZero() &&
		equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels())
}
