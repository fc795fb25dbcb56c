package instance

import (
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

// living is who was alive when the Leases were looked at.
type living struct {
	// me is this instance, nil if it has no Lease in the cache.
	me *Peer
	// peers are the others, the first one first.
	peers []Peer
	// until is when that may be different although no Lease changes: the next one runs out, or what is said of the peers is out of date.
	until time.Time
}

// look returns who is alive. It reads the Leases when one of them has changed, or may have run out: clusters ask in each reconcile.
func (p *Peers) look(ctx context.Context) (living, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if known := p.alive; known != nil && !p.stale && (known.until.IsZero() || now.Before(known.until)) {
		return *known, nil
	}
	list := &coordinationv1.LeaseList{}
	// Before the list: what changes after it is read again.
	p.stale = false
	if p.leases != nil {
		if err := p.leases.List(ctx, list, client.HasLabels{archelonv1.InstanceLabel}, client.UnsafeDisableDeepCopy); err != nil {
			p.stale = true
			return living{}, fmt.Errorf("listing the Leases of instances: %w", err)
		}
	}
	alive := living{}
	there := make(map[ID]bool, len(list.Items))
	for i := range list.Items {
		lease := &list.Items[i]
		id, ok := idOf(lease)
		if !ok {
			continue
		}
		there[id] = true
		until := p.sight(id, lease, now)
		switch peer := p.read(id, lease, until); {
		case peer == nil:
		case id == p.self:
			alive.me = peer // Whoever asks is alive.
		case now.Before(until):
			alive.peers = append(alive.peers, *peer)
			alive.until = earlier(alive.until, until)
		}
	}
	maps.DeleteFunc(p.seen, func(id ID, _ *sighting) bool { return !there[id] })
	slices.SortFunc(alive.peers, senior)
	p.view.update(alive.peers, now)
	alive.until = earlier(alive.until, p.view.due)
	p.alive = &alive
	return alive, nil
}

// earlier returns the earlier of two times. Zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// idOf returns the instance that a Lease stands for, if it has the form of one that is held.
func idOf(lease *coordinationv1.Lease) (ID, bool) {
	id := ID{Namespace: lease.Namespace, Name: lease.Labels[archelonv1.InstanceLabel]}
	spec := &lease.Spec
	return id, lease.Name == id.LeaseName() && ptr.Deref(spec.HolderIdentity, "") != "" && spec.AcquireTime != nil && spec.LeaseDurationSeconds != nil
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
	return s.at.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
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
