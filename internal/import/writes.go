package importer

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
func (w *ownWrites) note(object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if object.GetUID() != "" && object.GetResourceVersion() != "" {
		w.last[object.GetUID()] = object.GetResourceVersion()
	}
}

// ahead reports whether this process wrote the object after the given copy was made.
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
