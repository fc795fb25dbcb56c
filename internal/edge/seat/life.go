package seat

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// Holder returns who has a seat, empty if nobody has or it was given back, and until when, by the clock of who has.
func Holder(lease *coordinationv1.Lease) (holder string, until time.Time) {
	seen := sightOf(lease)
	if seen.holder == "" || seen.parked {
		return "", time.Time{}
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return shown(seen.holder), time.UnixMicro(seen.renewed).Add(lasts)
}

// Renewed reports whether somebody has renewed or taken a seat between two looks.
func Renewed(before, after *coordinationv1.Lease) bool {
	now := sightOf(after)
	return now.holder != "" && !now.parked && now != sightOf(before)
}
