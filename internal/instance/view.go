package instance

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// calm is how long what is said of peers stays as it is. All clusters are looked at when it changes, and each that two claim says so in a
// condition: one write of a Lease is answered by many.
const calm = 5 * time.Second

// view is what is said of peers. Who works on a cluster is decided by what they are now; what this instance says about it must not change
// as often as somebody writes a Lease.
type view struct {
	peers []Peer
	at    time.Time
	// number counts the changes.
	number int
	// due is when it is out of date and may change; zero if it is not out of date.
	due time.Time
}

// update takes over what peers are now, if they changed and the last change was long enough ago.
func (v *view) update(peers []Peer, now time.Time) {
	v.due = time.Time{}
	if same(v.peers, peers) {
		return
	}
	if due := v.at.Add(calm); now.Before(due) {
		v.due = due
		return
	}
	v.peers, v.at = slices.Clone(peers), now
	v.number++
}

// same reports whether these are the same instances with the same claims.
func same(a, b []Peer) bool {
	if len(a) != len(b) {
		return false
	}
	claims := make(map[ID]claimText, len(a))
	for _, peer := range a {
		claims[peer.ID] = peer.text
	}
	for _, peer := range b {
		if claim, ok := claims[peer.ID]; !ok || claim != peer.text {
			return false
		}
	}
	return true
}

// Observe is told of every change of a Lease.
func (p *Peers) Observe() {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable: it watches over the peers until the context ends.
func (p *Peers) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := p.tell(ctx)
		if err != nil {
			return err
		}
		p.await(ctx, next)
	}
	return nil
}

// await returns when a Lease changed, or when it is time to look again; zero is never.
func (p *Peers) await(ctx context.Context, next time.Duration) {
	var due <-chan time.Time
	if next > 0 {
		timer := p.clock.NewTimer(next)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-p.kick:
	case <-due:
	}
}

// tell sends an event if there is news, and returns when to look again although nothing happens: when the next Lease runs out, or when what has
// changed meanwhile may be told.
func (p *Peers) tell(ctx context.Context) (time.Duration, error) {
	alive, err := p.look(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil //nolint:nilerr // the cache stops with the manager
		}
		return 0, err
	}
	p.mu.Lock()
	news := p.told != p.view.number
	p.told = p.view.number
	p.mu.Unlock()
	if news {
		select {
		case p.changed <- event.GenericEvent{Object: &coordinationv1.Lease{}}:
		case <-ctx.Done():
		}
	}
	if alive.until.IsZero() {
		return 0, nil
	}
	return max(alive.until.Sub(p.clock.Now()), time.Millisecond), nil
}
