package importer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
