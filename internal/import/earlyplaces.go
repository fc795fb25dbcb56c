package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

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

// neverUp reports whether a CAPI cluster never had a control plane.
func neverUp(cluster *clusterv1.Cluster) bool {
	return !controlPlaneUp(cluster) && !initialized(cluster)
}

// placesHeld returns the UIDs of the CAPI clusters of a namespace that have a Rancher cluster and never had a control
// plane. It counts Rancher clusters, because tenants can write what CAPI Clusters say of them.
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
			if err == nil && neverUp(cluster) {
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

// earlyPlaces bound how many Rancher clusters without a control plane a namespace has. A tenant that may create CAPI
// Clusters needs nothing else for such a Rancher cluster, and Rancher creates namespaces for each.
//
// The caches say which places are held. What is remembered here is what they do not show yet, and what waits. A restart
// loses both: then all clusters are looked at anyway.
type earlyPlaces struct {
	mu sync.Mutex
	// given are places that the caches do not show yet, and until when that is believed.
	given map[string]map[types.UID]time.Time
	// waiting are the clusters that got none, in their order.
	waiting map[string][]types.NamespacedName
}

func newEarlyPlaces() *earlyPlaces {
	return &earlyPlaces{given: map[string]map[types.UID]time.Time{}, waiting: map[string][]types.NamespacedName{}}
}

// take reports whether a cluster has one of the places of its namespace. If it has none, it waits.
func (p *earlyPlaces) take(cluster *clusterv1.Cluster, held sets.Set[types.UID], most int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(cluster)
	given := p.pending(key.Namespace, held, now)
	if _, mine := given[cluster.UID]; mine || held.Has(cluster.UID) {
		return true
	}
	if len(held)+len(given) < most {
		given[cluster.UID] = now.Add(madeTrust)
		p.given[key.Namespace] = given
		p.stopWaiting(key)
		return true
	}
	if !slices.Contains(p.waiting[key.Namespace], key) {
		p.waiting[key.Namespace] = append(p.waiting[key.Namespace], key)
	}
	return false
}

// next returns as many of the clusters that wait as there are places, of those that still do.
func (p *earlyPlaces) next(
	namespace string, held sets.Set[types.UID], most int, now time.Time, waits func(types.NamespacedName) bool,
) []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := most - len(held) - len(p.pending(namespace, held, now))
	var next []types.NamespacedName
	for free > len(next) && len(p.waiting[namespace]) > 0 {
		first := p.waiting[namespace][0]
		if p.stopWaiting(first); waits(first) {
			next = append(next, first)
		}
	}
	return next
}

// anyWaits reports whether a cluster of a namespace waits.
func (p *earlyPlaces) anyWaits(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting[namespace]) > 0
}

// pending returns the places that were given and that the caches do not show yet.
func (p *earlyPlaces) pending(namespace string, held sets.Set[types.UID], now time.Time) map[types.UID]time.Time {
	given := p.given[namespace]
	maps.DeleteFunc(given, func(uid types.UID, until time.Time) bool { return held.Has(uid) || !now.Before(until) })
	if len(given) == 0 {
		delete(p.given, namespace)
		return map[types.UID]time.Time{}
	}
	return given
}

func (p *earlyPlaces) stopWaiting(key types.NamespacedName) {
	left := slices.DeleteFunc(p.waiting[key.Namespace], func(other types.NamespacedName) bool { return other == key })
	if p.waiting[key.Namespace] = left; len(left) == 0 {
		delete(p.waiting, key.Namespace)
	}
}

// forget drops a cluster that is gone.
func (p *earlyPlaces) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopWaiting(key)
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
	none := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	up := none
	up.UpdateFunc = func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return ok && ok2 && neverUp(before) && !neverUp(after)
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
