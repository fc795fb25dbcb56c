package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// settle is how long an instance that meets others which claim the same keeps still after it has begun: by then they have seen its Lease,
// and all agree on who was first.
const settle = 3 * time.Second

// glance is when to look again for what a watch is about to bring.
const glance = 100 * time.Millisecond

// grace is how long a cluster that nobody stands on is left to the one that was first. An instance that meets others puts itself on its clusters at
// once, so one that has not done so by then is in trouble, or is none: whoever may write Leases can make up an instance, and must not
// stop the imports of others by it.
const grace = 20 * time.Second

// Peer is another instance that is alive.
type Peer struct {
	ID
	Claim
	// since is when it began, by its own clock.
	since time.Time
	// until is when it counts as gone unless its Lease is renewed, by our clock.
	until time.Time
}

// Peers knows the other instances by their Leases.
type Peers struct {
	self    ID
	elected bool
	leases  client.Reader
	clock   clock.WithTicker
	changed chan event.GenericEvent
	kick    chan struct{}

	mu    sync.Mutex
	seen  map[ID]sighting
	alive map[ID]string // what Start has told last
	// unclaimed is since when clusters have been left to others that do not stand on them.
	unclaimed map[types.UID]time.Time
}

// sighting is when a Lease was seen to change last. As in leader election, the clocks of others are not compared with ours.
type sighting struct {
	renewal string
	at      time.Time
}

// NewPeers returns the peers of an instance. Leases are read from leases, a cache of those that carry archelon.io/instance. An instance
// that is not elected has no Lease: it leaves to others whatever they claim.
func NewPeers(self ID, elected bool, leases client.Reader, c clock.WithTicker) (*Peers, error) {
	if leases == nil || c == nil || self.Name == "" {
		return nil, errors.New("peers need the name of the instance, a reader of Leases and a clock")
	}
	return &Peers{
		self: self, elected: elected, leases: leases, clock: c,
		changed: make(chan event.GenericEvent, 1), kick: make(chan struct{}, 1),
		seen: map[ID]sighting{}, alive: map[ID]string{}, unclaimed: map[types.UID]time.Time{},
	}, nil
}

// Self is the instance itself.
func (p *Peers) Self() ID { return p.self }

// Changed has an event whenever a peer appeared, went, or claims something else.
func (p *Peers) Changed() <-chan event.GenericEvent { return p.changed }

// Verdict says who works on a CAPI cluster.
type Verdict struct {
	// Mine: this instance does.
	Mine bool
	// By is who does otherwise.
	By ID
	// Rivals claim the cluster as well and leave it to this instance.
	Rivals []ID
	// Retry is when to ask again, because it cannot be said yet, or because nobody stands on the cluster; zero otherwise.
	Retry time.Duration
}

// OwnerOf says who works on a CAPI cluster: the instance that stands on it, as long as that is alive and claims it; else the one of the
// living that was first, if it does not take too long over it.
func (p *Peers) OwnerOf(ctx context.Context, cluster client.Object) (Verdict, error) {
	verdict, err := p.ownerOf(ctx, cluster)
	if verdict.Mine || verdict.Retry == 0 {
		p.mu.Lock()
		delete(p.unclaimed, cluster.GetUID())
		p.mu.Unlock()
	}
	return verdict, err
}

func (p *Peers) ownerOf(ctx context.Context, cluster client.Object) (Verdict, error) {
	me, peers, err := p.living(ctx)
	if err != nil {
		return Verdict{}, err
	}
	peers = slices.DeleteFunc(peers, func(peer Peer) bool { return !peer.Covers(cluster) })
	rivals := make([]ID, 0, len(peers))
	for _, peer := range peers {
		rivals = append(rivals, peer.ID)
	}
	stands := cluster.GetAnnotations()[archelonv1.InstanceAnnotation]
	switch i := slices.IndexFunc(rivals, func(id ID) bool { return id.String() == stands }); {
	case len(peers) == 0:
		return Verdict{Mine: true}, nil
	case stands == p.self.String():
		return Verdict{Mine: true, Rivals: rivals}, nil
	case i >= 0:
		return Verdict{By: rivals[i]}, nil
	case !p.elected:
		return Verdict{By: rivals[0]}, nil
	case me == nil:
		// Our own Lease is taken; the cache is about to have it.
		return Verdict{Retry: glance}, nil
	}
	if left := settle - p.clock.Now().Sub(me.since); left > 0 {
		return Verdict{Retry: left}, nil
	}
	if first := peers[0]; senior(first, *me) < 0 {
		if left := p.graceLeft(cluster.GetUID()); left > 0 {
			return Verdict{By: first.ID, Retry: left}, nil
		}
	}
	return Verdict{Mine: true, Rivals: rivals}, nil
}

// graceLeft returns for how much longer a cluster is left to others although none stands on it.
func (p *Peers) graceLeft(cluster types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for uid, since := range p.unclaimed {
		if now.Sub(since) > 10*grace { // It was deleted meanwhile.
			delete(p.unclaimed, uid)
		}
	}
	since, known := p.unclaimed[cluster]
	if !known {
		since = now
		p.unclaimed[cluster] = now
	}
	return max(0, grace-now.Sub(since))
}

// senior orders peers by who was first.
func senior(a, b Peer) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.String(), b.String()))
}

// living returns this instance, nil if it has no Lease in the cache, and its living peers, the first one first.
func (p *Peers) living(ctx context.Context) (*Peer, []Peer, error) {
	list := &coordinationv1.LeaseList{}
	if err := p.leases.List(ctx, list, client.HasLabels{archelonv1.InstanceLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the Leases of instances: %w", err)
	}
	var (
		me    *Peer
		peers []Peer
	)
	for i := range list.Items {
		peer, alive := p.look(&list.Items[i])
		switch {
		case peer.ID == p.self:
			me = &peer // Whoever asks is alive.
		case alive:
			peers = append(peers, peer)
		}
	}
	p.forgetAllBut(list.Items)
	slices.SortFunc(peers, senior)
	return me, peers, nil
}

// forgetAllBut drops what is known of Leases that do not exist any more: whoever may write them must not fill our memory.
func (p *Peers) forgetAllBut(leases []coordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) <= len(leases) {
		return
	}
	maps.DeleteFunc(p.seen, func(id ID, _ sighting) bool {
		return !slices.ContainsFunc(leases, func(lease coordinationv1.Lease) bool {
			return lease.Namespace == id.Namespace && lease.Name == id.LeaseName()
		})
	})
}

// look returns the instance that a Lease stands for, and whether it is alive.
func (p *Peers) look(lease *coordinationv1.Lease) (Peer, bool) {
	id, claim, err := Announced(lease)
	spec := &lease.Spec
	holder := ptr.Deref(spec.HolderIdentity, "")
	if err != nil || holder == "" || spec.AcquireTime == nil || spec.LeaseDurationSeconds == nil {
		return Peer{}, false // Not written by an instance.
	}
	renewal := holder + "/" + lease.ResourceVersion
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, now := p.seen[id], p.clock.Now()
	if seen.renewal != renewal {
		seen = sighting{renewal: renewal, at: now}
		p.seen[id] = seen
	}
	until := seen.at.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	return Peer{ID: id, Claim: claim, since: spec.AcquireTime.Time, until: until}, now.Before(until)
}

// Observe is told of every change of a Lease.
func (p *Peers) Observe() {
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

// await returns when a Lease changed, or when the next one runs out; zero is never.
func (p *Peers) await(ctx context.Context, next time.Duration) {
	var expiry <-chan time.Time
	if next > 0 {
		timer := p.clock.NewTimer(next)
		defer timer.Stop()
		expiry = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-p.kick:
	case <-expiry:
	}
}

// tell sends an event if there is news, and returns when to look again although nothing happens: when the next Lease runs out.
func (p *Peers) tell(ctx context.Context) (time.Duration, error) {
	_, peers, err := p.living(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil //nolint:nilerr // the cache stops with the manager
		}
		return 0, err
	}
	alive := map[ID]string{}
	var next time.Duration
	for _, peer := range peers {
		alive[peer.ID] = peer.Scope.Encode() + " " + peer.WatchFilter
		left := peer.until.Sub(p.clock.Now()) + time.Millisecond
		if next == 0 || left < next {
			next = left
		}
	}
	p.mu.Lock()
	news := len(alive) != len(p.alive)
	for id, claim := range alive {
		news = news || p.alive[id] != claim
	}
	p.alive = alive
	p.mu.Unlock()
	if news {
		select {
		case p.changed <- event.GenericEvent{Object: &coordinationv1.Lease{}}:
		case <-ctx.Done():
		}
	}
	return next, nil
}
