package instance

import (
	"cmp"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// Share is what an instance gets of the namespaces that it claims.
type Share struct {
	// Scope is where it may work now.
	Scope shard.Scope
	// Left are the namespaces of its claim that belong to others.
	Left []Part
	// Awaited are namespaces that belong to it, and that others have yet to leave.
	Awaited []Part
}

// Owned is what belongs to the instance, whether others have left it or not.
func (s Share) Owned(claim Claim) shard.Scope {
	owned := claim.Scope
	for _, part := range s.Left {
		owned = owned.Without(part.Scope)
	}
	return owned
}

// Part is some of the namespaces of an instance that another one has.
type Part struct {
	// Peer is the other one.
	Peer ID
	// Scope is which namespaces.
	Scope shard.Scope
	// Gone is whether the other one does not run.
	Gone bool
}

// Divide says what an instance gets of what it claims.
//
// A namespace belongs to one of the instances that claim it: to one that names it before one that selects by labels
// before one that does not exclude it before one that claims all; of several to the one whose Lease is the oldest. Who
// names a namespace has it for as long as its Lease exists, whether it runs or not: what is dedicated is never taken
// over because of an outage. Of the others those count that are alive.
//
// Where it belongs to this instance, another one may still work there, for a moment after a change. It may begin
// when that one has left.
func Divide(self Registered, others []Registered) Share {
	share := Share{}
	rest := self.Scope
	for _, other := range bySeniority(others) {
		if other.ID == self.ID || !self.meets(other.Claim) || !other.Alive && rankOf(other.Claim) != named || !beats(other, self) {
			continue
		}
		if part := rest.Within(other.Scope); !part.Empty() {
			share.Left = append(share.Left, Part{Peer: other.ID, Scope: part, Gone: !other.Alive})
			rest = rest.Without(other.Scope)
		}
	}
	for _, other := range bySeniority(others) {
		if other.ID == self.ID || !self.meets(other.Claim) || !other.Alive {
			continue
		}
		if part := rest.Within(other.Works); !part.Empty() {
			share.Awaited = append(share.Awaited, Part{Peer: other.ID, Scope: part})
			rest = rest.Without(other.Works)
		}
	}
	share.Scope = rest
	return share
}

// Keeps reports whether one of the others has a CAPI cluster in a namespace with these labels, among those that select
// namespaces by their labels. If the cluster names one that works in the namespace, that one has it until it takes its
// name off. If it names none, or one that is gone, the one with the oldest Lease has it whose selector fits: two that
// begin at the same time would write the condition against each other.
func Keeps(self Registered, others []Registered, cluster client.Object, namespace map[string]string) bool {
	by := cluster.GetAnnotations()[archelonv1.InstanceAnnotation]
	rivals := slices.DeleteFunc(slices.Clone(others), func(r Registered) bool {
		return r.ID == self.ID || !r.Alive || r.Selector == nil || !r.Works.Owns(cluster.GetNamespace())
	})
	if slices.ContainsFunc(rivals, func(r Registered) bool { return r.String() == by }) {
		return true
	}
	return by != self.String() && self.Selector != nil && slices.ContainsFunc(rivals, func(r Registered) bool {
		return r.Covers(cluster) && r.Selects(namespace) && beats(r, self)
	})
}

// Unowned returns how many namespaces are named by instances that do not run, and by none that does. Nobody works
// there.
func Unowned(all []Registered) int {
	count := map[string]bool{}
	for _, r := range all {
		for _, name := range r.Scope.Included() {
			count[name] = count[name] || r.Alive
		}
	}
	unowned := 0
	for _, owned := range count {
		if !owned {
			unowned++
		}
	}
	return unowned
}

// rank is how decidedly an instance claims the namespaces of its scope.
type rank int

const (
	all rank = iota
	excluding
	selecting
	named
)

func rankOf(claim Claim) rank {
	switch {
	case len(claim.Scope.Included()) > 0:
		return named
	case claim.Selector != nil:
		return selecting
	case claim.Scope.All():
		return all
	default:
		return excluding
	}
}

// beats reports whether a gets the namespaces that both claim.
func beats(a, b Registered) bool { return bySenior(a, b) < 0 }

func bySenior(a, b Registered) int {
	return cmp.Or(cmp.Compare(rankOf(b.Claim), rankOf(a.Claim)), a.Since.Compare(b.Since), cmp.Compare(a.String(), b.String()))
}

// bySeniority returns the instances in the order in which they get namespaces.
func bySeniority(instances []Registered) []Registered {
	sorted := slices.Clone(instances)
	slices.SortFunc(sorted, bySenior)
	return sorted
}
