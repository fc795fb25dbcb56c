package seat

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// ErrTaken is why an installation is not uninstalled.
var ErrTaken = errors.New("another Archelon serves this management cluster, and Rancher clusters that it imports must not be touched here")

// Leaver is who uninstalls an installation, and has no name on the seat. The zero value is not usable.
type Leaver struct {
	place  Place
	timing Timing
	clock  clock.PassiveClock

	// seen is the holder that was seen first, and since when; alive is whether somebody has renewed the seat since.
	seen  sight
	since time.Time
	alive bool
}

// NewLeaver fails if an option is missing.
func NewLeaver(place Place, timing Timing, now clock.PassiveClock) (*Leaver, error) {
	if now == nil {
		return nil, errors.New("who leaves a seat needs a clock")
	}
	if err := errors.Join(place.validate(), timing.validate()); err != nil {
		return nil, err
	}
	return &Leaver{place: place, timing: timing, clock: now}, nil
}

// Taken returns ErrTaken if another installation holds the seat. It does not wait, so it goes by the clock of who has
// renewed the seat.
func (l *Leaver) Taken(ctx context.Context) error {
	lease, names, err := l.read(ctx)
	if err != nil || lease == nil {
		return err
	}
	seen := sightOf(lease)
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if seen.holder == "" || names.has(seen.holder) || !l.clock.Now().Before(time.UnixMicro(seen.renewed).Add(lasts)) {
		return nil
	}
	return fmt.Errorf("%w: it is %s", ErrTaken, shown(seen.holder))
}

// Free reports whether nobody writes the Rancher clusters of the management cluster any more. It is asked again and
// again after the manager has stopped: a manager that was killed, or an original whose clone this is, cannot be told
// from each other at once.
func (l *Leaver) Free(ctx context.Context) (bool, error) {
	if err := l.Taken(ctx); err != nil {
		return false, err
	}
	lease, names, err := l.read(ctx)
	if err != nil || lease == nil {
		return err == nil, err
	}
	seen, now := sightOf(lease), l.clock.Now()
	if l.since.IsZero() {
		l.seen, l.since = seen, now
	}
	l.alive = l.alive || seen != l.seen
	switch {
	case seen.holder == "" || !names.has(seen.holder):
		return true, nil
	case l.alive:
		return false, fmt.Errorf("%w: it is %s", ErrTaken, shown(seen.holder))
	case seen.parked || now.Sub(l.since) >= l.timing.Quiet:
		return true, nil
	}
	return false, fmt.Errorf("the registration of this management cluster in Rancher's cluster was not ended: it expires after %v without activity", l.timing.Quiet)
}

// Leave takes the name of this installation off the seat, and forgets it.
func (l *Leaver) Leave(ctx context.Context) error {
	lease, names, err := l.read(ctx)
	if err != nil {
		return err
	}
	if lease != nil {
		if err := l.place.giveBack(ctx, lease, names); err != nil {
			return fmt.Errorf("ending the registration in Rancher's cluster: %w", err)
		}
	}
	err = names.leases.Delete(ctx, names.key.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Lease %s: %w", names.key, err)
	}
	return nil
}

// giveBack clears the Lease of the seat, unless another installation holds it.
func (p Place) giveBack(ctx context.Context, lease *coordinationv1.Lease, names *memory) error {
	if holder := sightOf(lease).holder; holder == "" || !names.has(holder) {
		return nil
	}
	lease.Spec = coordinationv1.LeaseSpec{}
	_, err := p.Rancher.Leases(p.RancherNamespace).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// read returns the Lease of the seat, nil if there is none, and what this installation remembers.
func (l *Leaver) read(ctx context.Context) (*coordinationv1.Lease, *memory, error) {
	names := l.place.remembering()
	if err := names.read(ctx); err != nil {
		return nil, nil, err
	}
	lease, err := l.place.Rancher.Leases(l.place.RancherNamespace).Get(ctx, LeaseName(l.place.Origin), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, names, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the registration in Rancher's cluster: %w", err)
	}
	return lease, names, nil
}
