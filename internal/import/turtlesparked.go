package importer

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// A parked Turtles runs and holds its Lease, because it provides CAPI, but its importer has a watch filter that no
// cluster fits. Whether that is so cannot be seen from here: an administrator says it. If it is not so, Turtles puts
// its finalizer back on what is taken from it. Nothing is fought over then: a cluster is taken once from one process
// of Turtles.

// parkTurtles is what messages advise. Rancher's feature turtles is not for that: without it Rancher removes core CAPI.
const parkTurtles = "park its importer and say so with --turtles-parked (docs/operations/turtles.md)"

// takings remembers from which process of Turtles a cluster was taken while that process held its Lease.
type takings struct {
	mu   sync.Mutex
	from map[types.NamespacedName]taking
}

type taking struct {
	uid types.UID
	by  string
}

// note remembers that the cluster was taken. A Turtles that does not hold its Lease cannot take the cluster back.
func (t *takings) note(key types.NamespacedName, uid types.UID, hold turtlesHold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == nil {
		t.from = map[types.NamespacedName]taking{}
	}
	t.from[key] = taking{uid: uid, by: hold.by}
}

// of returns from which process the cluster was taken.
func (t *takings) of(key types.NamespacedName) taking {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from[key]
}

func (t *takings) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.from, key)
}

// mayTake reports whether what Turtles holds may be taken from it without a fight.
func (d *deciding) mayTake() bool {
	return d.lease.left == 0 || d.TurtlesParked && d.taken != taking{uid: d.cluster.UID, by: d.lease.by}
}

// whyNotTaken says why a cluster stays with Turtles although it is to be taken from it.
func (r Rules) whyNotTaken() string {
	if r.TurtlesParked {
		return fmt.Sprintf("Rancher Turtles has put its finalizer %s back, so it is not parked although --turtles-parked says so; "+
			"park its importer (docs/operations/turtles.md), then this import goes on", archelonv1.TurtlesFinalizer)
	}
	return fmt.Sprintf("Rancher Turtles runs and holds this cluster (finalizer %s); %s, then this import goes on",
		archelonv1.TurtlesFinalizer, parkTurtles)
}
