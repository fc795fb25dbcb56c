package instance

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
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
// once, so one that has not done so by then is in trouble, and must not stop the imports of others by it.
const grace = 20 * time.Second

// Peer is another instance that is alive.
type Peer struct {
	ID
	Claim
	// since is when it began, by its own clock.
	since time.Time
	// until is when it counts as gone unless its Lease is renewed, by our clock.
	until time.Time
	// text is the claim as it stands on the Lease.
	text claimText
}

// Peers knows the other instances by their Leases.
type Peers struct {
	self    ID
	elected bool
	leases  client.Reader
	clock   clock.WithTicker
	changed chan event.GenericEvent
	kick    chan struct{}

	mu   sync.Mutex
	seen map[ID]*sighting
	// alive is what the Leases said when they were read last, nil if they were not; stale is set when one has changed since.
	alive *living
	stale bool
	view  view
	told  int // the number of the view that Start has told last
	// unclaimed is since when clusters have been left to others that do not stand on them.
	unclaimed map[types.UID]time.Time
	// swept is when those of clusters that are gone were dropped last.
	swept time.Time
}

// NewPeers returns the peers of an instance. Leases are read from leases, a cache of those in the coordination namespace that carry
// archelon.io/instance; without leases there are no others. An instance that is not elected has no Lease: it leaves to others whatever they claim.
func NewPeers(self ID, elected bool, leases client.Reader, c clock.WithTicker) (*Peers, error) {
	if c == nil || self.Name == "" || elected && leases == nil {
		return nil, errors.New("peers need the name of the instance, a clock and, if it is elected, a reader of Leases")
	}
	return &Peers{
		self: self, elected: elected, leases: leases, clock: c,
		changed: make(chan event.GenericEvent, 1), kick: make(chan struct{}, 1),
		seen: map[ID]*sighting{}, unclaimed: map[types.UID]time.Time{},
	}, nil
}

// Self is the instance itself.
func (p *Peers) Self() ID { return p.self }

// Changed has an event when peers appeared, went, or claim something else: at once, unless there was one not long ago.
func (p *Peers) Changed() <-chan event.GenericEvent { return p.changed }

// Verdict says who works on a CAPI cluster.
type Verdict struct {
	// Mine: this instance does.
	Mine bool
	// By is who does otherwise.
	By ID
	// Rivals claim the cluster as well and leave it to this instance. They change at most as often as Changed has events.
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
	alive, err := p.look(ctx)
	if err != nil {
		return Verdict{}, err
	}
	stands := cluster.GetAnnotations()[archelonv1.InstanceAnnotation]
	var first, standing *Peer
	for i := range alive.peers {
		peer := &alive.peers[i]
		if !peer.Covers(cluster) {
			continue
		}
		if first == nil {
			first = peer
		}
		if peer.String() == stands {
			standing = peer
		}
	}
	mine := Verdict{Mine: true, Rivals: p.rivals(cluster)}
	switch {
	case first == nil, stands == p.self.String():
		return mine, nil
	case standing != nil:
		return Verdict{By: standing.ID}, nil
	case !p.elected:
		return Verdict{By: first.ID}, nil
	case alive.me == nil:
		// Our own Lease is taken; the cache is about to have it.
		return Verdict{Retry: glance}, nil
	}
	if left := settle - p.clock.Now().Sub(alive.me.since); left > 0 {
		return Verdict{Retry: left}, nil
	}
	if senior(*first, *alive.me) < 0 {
		if left := p.graceLeft(cluster.GetUID()); left > 0 {
			return Verdict{By: first.ID, Retry: left}, nil
		}
	}
	return mine, nil
}

// Deserted reports whether nobody else looks after a cluster that this instance does not claim: no peer that is alive stands on it, and none claims
// it, or takes too long over it. The duration is when to ask again although no peer changes; zero if that is not needed.
func (p *Peers) Deserted(ctx context.Context, cluster client.Object) (bool, time.Duration, error) {
	alive, err := p.look(ctx)
	if err != nil {
		return false, 0, err
	}
	stands := cluster.GetAnnotations()[archelonv1.InstanceAnnotation]
	if slices.ContainsFunc(alive.peers, func(peer Peer) bool { return peer.String() == stands }) {
		return false, 0, nil
	}
	if slices.ContainsFunc(alive.peers, func(peer Peer) bool { return peer.Covers(cluster) }) {
		left := p.graceLeft(cluster.GetUID())
		return left == 0, left, nil
	}
	return true, 0, nil
}

// rivals returns the peers in view that claim a cluster.
func (p *Peers) rivals(cluster client.Object) []ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rivals []ID
	for _, peer := range p.view.peers {
		if peer.Covers(cluster) {
			rivals = append(rivals, peer.ID)
		}
	}
	return rivals
}

// graceLeft returns for how much longer a cluster is left to others although none stands on it.
func (p *Peers) graceLeft(cluster types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if now.Sub(p.swept) > grace { // Not each time: thousands may be asked for in a moment.
		p.swept = now
		maps.DeleteFunc(p.unclaimed, func(_ types.UID, since time.Time) bool { return now.Sub(since) > 10*grace }) // It was deleted meanwhile.
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
