package turtles

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Takings remembers from which process of Turtles a CAPI Cluster was taken while that process held its Lease. The zero
// value is ready to use.
//
// A parked Turtles runs and holds its Lease, because it provides CAPI, but its importer has a watch filter that no
// cluster fits. Whether that is so cannot be seen from here: an administrator says it. If it is not so, Turtles puts
// its finalizer back on what is taken from it. Nothing is fought over then: a cluster is taken once from one process
// of Turtles.
type Takings struct {
	mu   sync.Mutex
	from map[types.NamespacedName]Taking
}

// Taking is a CAPI Cluster, and the process of Turtles that it was taken from.
type Taking struct {
	UID types.UID
	By  string
}

// Note remembers that a CAPI Cluster was taken. A Turtles that does not hold its Lease cannot take it back.
func (t *Takings) Note(key types.NamespacedName, taking Taking) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == nil {
		t.from = map[types.NamespacedName]Taking{}
	}
	t.from[key] = taking
}

// Of returns what was taken last of a CAPI Cluster of that name, the zero value if nothing was.
func (t *Takings) Of(key types.NamespacedName) Taking {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from[key]
}

// Forget drops a CAPI Cluster that is gone.
func (t *Takings) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.from, key)
}
