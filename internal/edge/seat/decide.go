package seat

import (
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Timing are the times that a seat is kept by. They are measured by the clock of the process alone.
type Timing struct {
	// Renew is the pause between two renewals, and between two looks of a process that waits.
	Renew time.Duration
	// Fresh is how long after a renewal was sent the process may write.
	Fresh time.Duration
	// Quiet is for how long nobody may have renewed the seat when it is taken from an earlier process of the same
	// installation, or when nobody has it. It is longer than Fresh: the one who had it does not write any more.
	Quiet time.Duration
	// Expire is the same for a holder that this installation does not know.
	Expire time.Duration
}

// DefaultTiming returns the times of an installation. A Rancher that does not answer for a moment costs nobody the
// seat.
func DefaultTiming() Timing {
	return Timing{Renew: 5 * time.Second, Fresh: 10 * time.Second, Quiet: 15 * time.Second, Expire: 5 * time.Minute}
}

func (t Timing) validate() error {
	if t.Renew <= 0 || t.Fresh <= t.Renew || t.Quiet <= t.Fresh || t.Expire < t.Quiet || t.Expire < 2*parkedFor {
		return errors.New("the times of a seat have to be longer in this order: renew, fresh, quiet, expire")
	}
	return nil
}

// parkedFor is how long the Lease of a holder lasts that has ended in order, and says so by it. No other Lease is as
// short.
const parkedFor = time.Second

// sight is what a Lease says.
type sight struct {
	holder string
	// renewed is by the clock of who has renewed it, in microseconds: it tells one renewal from another.
	renewed int64
	parked  bool
	// version is that of a Lease without a holder: somebody may have had it since it was seen like that before.
	version string
}

func sightOf(lease *coordinationv1.Lease) sight {
	spec := lease.Spec
	if ptr.Deref(spec.HolderIdentity, "") == "" {
		return sight{version: lease.ResourceVersion}
	}
	lasts := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	return sight{holder: *spec.HolderIdentity, renewed: ptr.Deref(spec.RenewTime, metav1.MicroTime{}).UnixMicro(), parked: lasts <= parkedFor}
}

// view is what a process knows that does not hold the seat.
type view struct {
	sight
	// quiet is for how long the Lease was seen to say the same.
	quiet time.Duration
	// alive is whether somebody else was seen to renew or to take the seat.
	alive bool
	// own is whether this very process has written it, remembered whether the name is one that this installation has
	// had.
	own, remembered bool
}

// step is what a process does next that does not hold the seat.
type step string

const (
	// take: nobody else has the seat.
	take step = "take"
	// inherit: it is that of an earlier process of this installation.
	inherit step = "inherit"
	// replace: the one who has it is silent for so long that it is taken for dead.
	replace step = "replace"
	// forget: somebody else lives by a name that this installation remembers. It is a clone, or has a clone.
	forget step = "forget"
	// standBy: somebody else has it.
	standBy step = "stand by"
	// watch: it is not known yet whether somebody else has it.
	watch step = "watch"
)

// decide says what to do.
//
// Who has seen another one alive does not take over when that is silent: a clone would when the original is cut off. A
// person has to say that the other one is gone, by a restart.
func decide(v view, t Timing) step {
	switch {
	case v.own:
		return take // The answer to the request that took it was lost.
	case v.holder == "":
		if v.quiet >= t.Quiet {
			return take
		}
	case v.remembered && v.alive:
		return forget
	case v.remembered:
		// What is parked when it is seen first was parked by who had it. What is parked later was alive until then.
		if v.parked || v.quiet >= t.Quiet {
			return inherit
		}
	case v.alive:
		return standBy
	case v.quiet >= t.Expire:
		return replace
	}
	return watch
}
