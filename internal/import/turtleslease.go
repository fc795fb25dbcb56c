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

// left returns for how long a Lease of Turtles among those given is held unless it is renewed, zero if none is.
func (t *turtlesLease) left(leases []coordinationv1.Lease, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seen
	t.seen = make(map[types.UID]leaseSighting, len(leases))
	var longest time.Duration
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
		longest = max(longest, sighting.at.Add(duration).Sub(now))
	}
	return longest
}
