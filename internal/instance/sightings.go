package instance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// sighting is a Lease as the watch showed it last.
type sighting struct {
	Registered
	held bool
	// renewal tells one renewal from another, and at is when it was first seen. As in leader election, the clocks of
	// others are not compared with ours.
	renewal string
	at      time.Time
	lasts   time.Duration
	// old is whether it had run out long ago, by its own clock, when this process saw it first.
	old bool
}

// runsOut returns when its holder counts as gone unless it is renewed. What is old already is not waited for as long: a
// process that starts again would never get what belongs to nobody.
func (s sighting) runsOut() time.Time {
	if s.old {
		return s.at.Add(settle)
	}
	return s.at.Add(s.lasts)
}

// changed takes note of a Lease that was written.
func (p *Peers) changed(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	defer p.wake()
	found, err := Read(lease)
	if err != nil {
		p.Logger.Info("Ignored a Lease that is not one of an instance", "cause", err.Error())
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := sighting{
		Registered: found, held: ptr.Deref(lease.Spec.HolderIdentity, "") != "", renewal: renewalOf(lease), at: now,
		lasts: max(p.Duration, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second),
	}
	switch known, ok := p.seen[s.ID]; {
	case ok && known.renewal == s.renewal:
		s.at, s.old = known.at, known.old
	case ok && s.ID != p.Self && s.claims() != known.claims():
		p.moved[s.ID] = true // What was left to it may be somebody else's now.
	case !ok && lease.Spec.RenewTime != nil:
		s.old = now.Sub(lease.Spec.RenewTime.Time) >= s.lasts+settle
	}
	p.seen[s.ID] = s
	if s.ID != p.Self {
		p.ran[s.ID] = true // Runs may say so before anybody looks.
	}
	if s.ID == p.Self && !p.published && p.Fence.holds(lease) && s.Works.Equal(p.works) {
		p.published = true
		for id, other := range p.seen {
			if p.inTheWay(other, now) {
				p.ahead[id] = true
			}
		}
	}
	p.guard(now)
	if s.ID == p.Self {
		p.Fence.observe(lease)
	}
}

func (p *Peers) deleted(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if lease, ok := object.(*coordinationv1.Lease); ok {
		id := ID{Namespace: lease.Namespace, Name: lease.Labels[archelonv1.InstanceLabel]}
		p.mu.Lock()
		delete(p.seen, id)
		p.guard(time.Now())
		p.mu.Unlock()
		if id == p.Self {
			p.Fence.observe(&coordinationv1.Lease{}) // Nobody holds it until it is created again.
		}
	}
	p.wake()
}

// inTheWay reports whether another instance works where this process does, and may be alive. The lock is held.
func (p *Peers) inTheWay(other sighting, now time.Time) bool {
	return other.ID != p.Self && other.held && now.Before(other.at.Add(other.lasts)) && other.meets(p.Claim) && other.Works.Overlaps(p.works)
}

// guard has the fence know whether others are in the way that were there before this process. The lock is held.
func (p *Peers) guard(now time.Time) {
	why := ""
	for id := range p.ahead {
		if other, ok := p.seen[id]; ok && p.inTheWay(other, now) {
			why = fmt.Sprintf("Waiting until instance %s leaves %s", id, other.Works.Within(p.works).MetricsLabel())
		} else {
			delete(p.ahead, id)
		}
	}
	p.Fence.block(why)
}

// claims tells one claim from another.
func (r Registered) claims() string { return fmt.Sprint(r.annotations(shard.None())) }

// renewalOf tells one renewal from another. What somebody else writes to a Lease is none.
func renewalOf(lease *coordinationv1.Lease) string {
	return fmt.Sprint(lease.UID, "/", ptr.Deref(lease.Spec.HolderIdentity, ""), "/", lease.Spec.RenewTime)
}

func (p *Peers) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// registered returns all instances by their Leases, and when that may be different although no Lease changes: zero is
// never.
func (p *Peers) registered() (instances []Registered, until time.Time) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		r := s.Registered
		if ends := s.runsOut(); now.Before(ends) {
			until = earlier(until, ends)
		} else {
			r.Alive = false
		}
		if s.held && now.Before(s.at.Add(s.lasts)) {
			until = earlier(until, s.at.Add(s.lasts))
		}
		if !s.held || !r.Alive {
			r.Works = shard.None()
		}
		instances = append(instances, r)
	}
	return instances, until
}

// listener is told which instances do not run any more.
type listener struct{ tell func(instance string) }

// Gone has a function called with the name of each other instance that ran and does not run any more, or that claims
// something else than before, until it is stopped: Runs and Keeps say so from then on. It is called while the process
// waits for its namespaces or watches over them, and must not wait.
func (p *Peers) Gone(gone func(instance string)) (stop func()) {
	l := &listener{gone}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.gone = map[*listener]struct{}{}
	}
	p.gone[l] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.gone, l)
	}
}

// tellGone tells which instances do not run any more that ran before, and which claim something else.
func (p *Peers) tellGone() {
	p.mu.Lock()
	ran, moved, gone := p.ran, p.moved, slices.Collect(maps.Keys(p.gone))
	p.ran, p.moved = map[ID]bool{}, map[ID]bool{} // What the watch shows from here on is for the next time.
	p.mu.Unlock()
	instances, _ := p.registered()
	p.mu.Lock()
	for _, r := range instances {
		if r.Alive && r.ID != p.Self {
			p.ran[r.ID] = true
			delete(ran, r.ID)
		}
	}
	p.mu.Unlock()
	maps.Copy(ran, moved)
	for id := range ran {
		for _, l := range gone {
			l.tell(id.String())
		}
	}
}
