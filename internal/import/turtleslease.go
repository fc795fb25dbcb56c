package importer

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// turtlesLeaseMax is the longest duration of a Lease that is believed. Turtles' own is 15 seconds.
const turtlesLeaseMax = time.Minute

// turtlesLease tells whether Turtles holds its Lease by when that was seen to change. As in leader election, its clock is not compared with ours.
type turtlesLease struct {
	mu   sync.Mutex
	seen map[types.UID]leaseSighting
}

// leaseSighting is when a version of a Lease was seen first.
type leaseSighting struct {
	version string
	at      time.Time
}

// turtlesHold is what the Leases of Turtles say at a moment.
type turtlesHold struct {
	// left is for how long Turtles still holds a Lease if it does not renew it; zero if it holds none.
	left time.Duration
	// by is the process that holds the Lease. Other arguments mean another process.
	by string
}

// held returns what the Leases of Turtles among those given say.
func (t *turtlesLease) held(leases []coordinationv1.Lease, now time.Time) turtlesHold {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seen
	t.seen = make(map[types.UID]leaseSighting, len(leases))
	var hold turtlesHold
	for i := range leases {
		lease := &leases[i]
		if lease.Name != archelonv1.TurtlesLease {
			continue
		}
		sighting := before[lease.UID]
		if sighting.version != lease.ResourceVersion {
			sighting = leaseSighting{version: lease.ResourceVersion, at: now}
		}
		t.seen[lease.UID] = sighting
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
			continue // It was given back, or never taken.
		}
		duration := min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, turtlesLeaseMax)
		if left := sighting.at.Add(duration).Sub(now); left > hold.left {
			hold = turtlesHold{left: left, by: *lease.Spec.HolderIdentity}
		}
	}
	return hold
}
