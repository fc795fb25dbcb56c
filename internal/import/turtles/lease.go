package turtles

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// longest is the longest duration of a Lease that is believed. Turtles' own is 15 seconds.
const longest = time.Minute

// Leases tells whether Turtles holds its Lease by when that was seen to change. As in leader election, its clock is not
// compared with ours. The zero value is ready to use.
type Leases struct {
	mu   sync.Mutex
	seen map[types.UID]sighting
}

// sighting is when a version of a Lease was seen first.
type sighting struct {
	version string
	at      time.Time
}

// Lease is what the Leases of Turtles say at a moment.
type Lease struct {
	// Left is for how long Turtles still holds a Lease if it does not renew it; zero if it holds none.
	Left time.Duration
	// By is the process that holds the Lease. Other arguments mean another process.
	By string
}

// Look returns what the Leases of Turtles among those given say.
func (l *Leases) Look(leases []coordinationv1.Lease, now time.Time) Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.seen
	l.seen = make(map[types.UID]sighting, len(leases))
	var found Lease
	for i := range leases {
		lease := &leases[i]
		if lease.Name != archelonv1.TurtlesLease {
			continue
		}
		seen := before[lease.UID]
		if seen.version != lease.ResourceVersion {
			seen = sighting{version: lease.ResourceVersion, at: now}
		}
		l.seen[lease.UID] = seen
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
			continue // It was given back, or never taken.
		}
		duration := min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, longest)
		if left := seen.at.Add(duration).Sub(now); left > found.Left {
			found = Lease{Left: left, By: *lease.Spec.HolderIdentity}
		}
	}
	return found
}
