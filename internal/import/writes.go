package importer

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownWrites remembers what this process wrote until the cache has seen it. A copy from the cache that is older than our
// own write would have it written again: a condition twice, an event twice, a lock lost. Safety never rests on
// it; the optimistic lock and live reads see to that.
//
// Resource versions of one kind can be compared since KEP-5504; older API servers order them in the same way.
type ownWrites struct {
	mu   sync.Mutex
	last map[types.UID]string
}

func newOwnWrites() *ownWrites { return &ownWrites{last: map[types.UID]string{}} }

// note remembers the outcome of a write.
func (w *ownWrites) note(object metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if object.GetUID() != "" && object.GetResourceVersion() != "" {
		w.last[object.GetUID()] = object.GetResourceVersion()
	}
}

// ahead reports whether this process wrote the object after the given copy was made. The copy has to be from the cache:
// what that has seen is forgotten.
func (w *ownWrites) ahead(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.last[object.GetUID()]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
	if err == nil && order < 0 {
		return true
	}
	delete(w.last, object.GetUID())
	return false
}

// forget drops an object that is gone.
func (w *ownWrites) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
}

// madeTrust is how long a record that this process made is waited for. The cache has it much
// sooner, unless it is in trouble.
const madeTrust = 5 * time.Second

// creations remembers the record that this process made for a CAPI cluster until the cache has it. Its watch event
// wakes the cluster; what is reconciled before would try to make it again, and find it by two requests more.
type creations struct {
	mu   sync.Mutex
	last map[types.UID]creation
}

type creation struct {
	id string
	at time.Time
}

func newCreations() *creations { return &creations{last: map[types.UID]creation{}} }

// note remembers that the record was made for the CAPI cluster.
func (c *creations) note(cluster types.UID, id string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, old := range c.last {
		if now.Sub(old.at) > madeTrust {
			delete(c.last, uid)
		}
	}
	c.last[cluster] = creation{id: id, at: now}
}

// of returns what was created for the CAPI cluster a moment ago.
func (c *creations) of(cluster types.UID) creation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[cluster]
}

// awaited returns for how much longer the cache is expected to bring the record, zero if it was not created just now.
func (c creation) awaited(id string, now time.Time) time.Duration {
	if c.id != id {
		return 0
	}
	return max(0, madeTrust-now.Sub(c.at))
}

// forget is called when the cache has the record of the CAPI cluster.
func (c *creations) forget(cluster types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, cluster)
}

// holdings remembers which CAPI clusters carry our finalizer and are neither being deleted nor paused, by
// their UID. A cluster that was asked to go a moment before it got the finalizer may vanish with it: the API
// server decides on what it has read before. Nothing else would tell such a cluster from one whose record was
// restored from a backup ahead of it.
type holdings struct {
	mu   sync.Mutex
	last map[types.NamespacedName]holding
}

type holding struct {
	uid types.UID
	// gone is when the cluster was first found gone.
	gone time.Time
}

func newHoldings() *holdings { return &holdings{last: map[types.NamespacedName]holding{}} }

// note remembers whether the cluster, as it was just read or written, carries our finalizer.
func (h *holdings) note(cluster *clusterv1.Cluster) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A paused cluster may be on its way to another management cluster, finalizers and all.
	if holds(cluster) && cluster.DeletionTimestamp.IsZero() && !paused(cluster) {
		h.last[client.ObjectKeyFromObject(cluster)] = holding{uid: cluster.UID}
		return
	}
	delete(h.last, client.ObjectKeyFromObject(cluster))
}

// forget drops a cluster that somebody else looks after.
func (h *holdings) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, key)
}

// expire drops a cluster that has been gone for long enough, and returns for how much longer it is
// remembered otherwise. The record may have been made a moment before: it comes by a watch of its own,
// which may be the slower one.
func (h *holdings) expire(key types.NamespacedName, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, ok := h.last[key]
	if !ok {
		return 0
	}
	if held.gone.IsZero() {
		held.gone = now
		h.last[key] = held
	}
	left := madeTrust - now.Sub(held.gone)
	if left <= 0 {
		delete(h.last, key)
	}
	return max(0, left)
}

// uid returns which incarnation of the cluster carried our finalizer when it was seen last.
func (h *holdings) uid(key types.NamespacedName) types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[key].uid
}
