package importer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// placesHeld returns the UIDs of the CAPI clusters of a namespace that have a Rancher cluster and no control plane that
// was up. It counts Rancher clusters, because tenants can write what CAPI Clusters say of them.
func (r *Reconciler) placesHeld(ctx context.Context, namespace string) (sets.Set[types.UID], error) {
	held := sets.Set[types.UID]{}
	for _, strategy := range r.strategies() {
		list := strategy.NewList()
		if err := r.inRancher().List(ctx, list, client.MatchingFields{ownerIndex: ownerNamespaceKey(namespace)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %s Rancher clusters of a namespace: %w", strategy.Kind(), err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			labels := item.(client.Object).GetLabels() //nolint:forcetypeassert // a list of client.Objects
			cluster := &clusterv1.Cluster{}
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: labels[archelonv1.OwnerNameLabel]}, cluster)
			if err == nil && !controlPlaneUp(cluster) {
				held.Insert(cluster.UID)
			}
			return client.IgnoreNotFound(err)
		})
		if err != nil {
			return nil, fmt.Errorf("reading CAPI clusters without a control plane: %w", err)
		}
	}
	return held, nil
}

// clustersForPlace returns the CAPI clusters that get the places which others have left in a namespace.
func (r *Reconciler) clustersForPlace(ctx context.Context, namespace string) []reconcile.Request {
	if !r.places.anyWaits(namespace) {
		return nil
	}
	held, err := r.placesHeld(ctx, namespace)
	if err != nil {
		return nil // A read from the cache fails only when the cache stops.
	}
	var requests []reconcile.Request
	for _, key := range r.places.next(namespace, held, r.EarlyPerNamespace, r.Clock.Now(), func(key types.NamespacedName) bool {
		cluster := &clusterv1.Cluster{}
		return r.Client.Get(ctx, key, cluster) == nil && cluster.DeletionTimestamp.IsZero() && !controlPlaneUp(cluster)
	}) {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// watchPlaces has clusters that leave a place wake those that wait for one: they get a control plane, or their Rancher
// cluster goes.
func (r *Reconciler) watchPlaces(b *builder.Builder, from cache.Cache) *builder.Builder {
	if !r.Early.some() {
		return b
	}
	none := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	up := none
	up.UpdateFunc = func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return ok && ok2 && !controlPlaneUp(before) && controlPlaneUp(after)
	}
	b = b.Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.clustersForPlace(ctx, o.GetNamespace())
	}), builder.WithPredicates(up))
	for _, strategy := range r.strategies() {
		b = b.WatchesRawSource(source.Kind(from, strategy.NewObject(),
			handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
				return r.clustersForPlace(ctx, o.GetLabels()[archelonv1.OwnerNamespaceLabel])
			}), predicate.Predicate(none)))
	}
	return b
}
