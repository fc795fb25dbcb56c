package instance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// Whoever may write Leases in any namespace, as an editor of it may, can write what looks like the Lease of an instance. So what a Lease can
// make this instance do and remember is bounded.
const (
	// longestLease is for how long a Lease is believed after it has changed, whatever it says. An instance renews it every few seconds.
	longestLease = 5 * time.Minute
	// mostPeers is how many living instances are looked at.
	mostPeers = 256
)

// sighting is when a Lease was seen to change last. As in leader election, the clocks of others are not compared with ours.
type sighting struct {
	renewal renewal
	at      time.Time

	// What the Lease says, and what was read from that; nil if it is no claim.
	text  claimText
	known bool
	claim *Claim
}

// renewal is what differs from one write of a Lease to the next.
type renewal struct {
	holder, version string
	lease           types.UID
}

// claimText is a claim as it stands on a Lease.
type claimText struct{ scope, filter string }

func textOf(lease *coordinationv1.Lease) claimText {
	return claimText{scope: lease.Annotations[archelonv1.ScopeAnnotation], filter: lease.Annotations[archelonv1.WatchFilterAnnotation]}
}

// living returns this instance, nil if it has no Lease in the cache, and its living peers, the first one first.
func (p *Peers) living(ctx context.Context) (*Peer, []Peer, error) {
	list := &coordinationv1.LeaseList{}
	if err := p.leases.List(ctx, list, client.HasLabels{archelonv1.InstanceLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the Leases of instances: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var (
		me    *Peer
		alive []*coordinationv1.Lease
		seen  int
		now   = p.clock.Now()
	)
	for i := range list.Items {
		lease := &list.Items[i]
		id, ok := idOf(lease)
		if !ok {
			continue
		}
		seen++
		until := p.sight(id, lease, now)
		switch {
		case id == p.self:
			me = p.read(id, lease, until) // Whoever asks is alive.
		case now.Before(until):
			alive = append(alive, lease)
		}
	}
	if len(p.seen) > seen {
		p.forgetAllBut(list.Items)
	}
	var peers []Peer
	for _, lease := range eldest(alive) {
		id, _ := idOf(lease)
		if peer := p.read(id, lease, p.sight(id, lease, now)); peer != nil {
			peers = append(peers, *peer)
		}
	}
	slices.SortFunc(peers, senior)
	p.view.update(peers, now)
	return me, peers, nil
}

// idOf returns the instance that a Lease stands for, if it has the form of one that is held.
func idOf(lease *coordinationv1.Lease) (ID, bool) {
	id := ID{Namespace: lease.Namespace, Name: lease.Labels[archelonv1.InstanceLabel]}
	spec := &lease.Spec
	return id, lease.Name == id.LeaseName() && ptr.Deref(spec.HolderIdentity, "") != "" && spec.AcquireTime != nil && spec.LeaseDurationSeconds != nil
}

// eldest returns those of the Leases that are looked at: the ones that exist longest, of which the API server keeps account. So those of instances that
// are there cannot be pushed aside by writing more.
func eldest(leases []*coordinationv1.Lease) []*coordinationv1.Lease {
	if len(leases) <= mostPeers {
		return leases
	}
	slices.SortFunc(leases, func(a, b *coordinationv1.Lease) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return leases[:mostPeers]
}

// sight takes note of a Lease, and returns until when its holder counts as alive.
func (p *Peers) sight(id ID, lease *coordinationv1.Lease, now time.Time) time.Time {
	s := p.seen[id]
	if s == nil {
		s = &sighting{}
		p.seen[id] = s
	}
	current := renewal{holder: *lease.Spec.HolderIdentity, version: lease.ResourceVersion, lease: lease.UID}
	if s.renewal != current {
		s.renewal, s.at = current, now
	}
	return s.at.Add(min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, longestLease))
}

// read returns the instance that a Lease in sight stands for, nil if no instance has written it. A claim is read once, not in every reconcile.
func (p *Peers) read(id ID, lease *coordinationv1.Lease, until time.Time) *Peer {
	s := p.seen[id]
	text := textOf(lease)
	if !s.known || s.text != text {
		s.text, s.known, s.claim = text, true, claimOf(text)
	}
	if s.claim == nil {
		return nil
	}
	return &Peer{ID: id, Claim: *s.claim, since: lease.Spec.AcquireTime.Time, until: until, text: text}
}

// claimOf reads a claim. It is nil if no instance has written it: none names more than the most namespaces, nor one of them twice.
func claimOf(text claimText) *Claim {
	if strings.Count(text.scope, ",") >= shard.MaxNamespaces {
		return nil
	}
	scope, err := shard.Decode(text.scope)
	if err != nil {
		return nil
	}
	return &Claim{Scope: scope, WatchFilter: text.filter}
}

// forgetAllBut drops what is known of Leases that do not exist any more: whoever may write them must not fill our memory.
func (p *Peers) forgetAllBut(leases []coordinationv1.Lease) {
	there := make(map[ID]bool, len(leases))
	for i := range leases {
		if id, ok := idOf(&leases[i]); ok {
			there[id] = true
		}
	}
	maps.DeleteFunc(p.seen, func(id ID, _ *sighting) bool { return !there[id] })
}
