package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// plan is what is to be done about the Secrets of a source.
type plan struct {
	// copies come first.
	copies []Action
	// names are those by which the target finds them.
	names    map[hostclaim.Role]string
	problems []Problem
	// surplus are copies that the source has no use for any more.
	surplus []Action
}

// planSecrets says how a target gets the Secrets of its source.
func planSecrets(o Observation) plan {
	p := plan{names: map[hostclaim.Role]string{}}
	named := hostclaim.Sources(o.Claim)
	origin := originKept(o.Claim)
	var kept []string
	for _, r := range hostclaim.Roles() {
		ref, wanted := named[r]
		standIn := hostclaim.Described(o.Claim, r)
		if !wanted && standIn == nil {
			continue
		}
		name := copyName(origin, r)
		kept = append(kept, name)
		is, found := o.Sources[r], o.Copies[name]
		switch {
		case !hostclaim.MayRead(o.Claim, ref):
			p.add(r, "Secret %s is in another namespace. Use a Secret in the namespace of this HostClaim", ref.Name)
		case wanted && is == nil:
			p.add(r, "Secret %s does not exist. Create it, or correct the field", ref.Name)
		default:
			p.names[r] = name
			if found == nil || found.Labels[metal3v1.SourceLabel] != hostclaim.CopyVersion(is, standIn) || !ownedByTarget(found, o.Target) {
				p.copies = append(p.copies, copySecret{
					source: is, standIn: standIn, to: types.NamespacedName{Namespace: o.Place.Namespace, Name: name}, origin: origin, replaces: found, target: o.Target,
				})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Copies)) {
		if !slices.Contains(kept, name) {
			p.surplus = append(p.surplus, removeCopy{o.Copies[name]})
		}
	}
	return p
}

// removals remove all copies.
func removals(o Observation) []Action {
	var actions []Action
	for _, name := range slices.Sorted(maps.Keys(o.Copies)) {
		actions = append(actions, removeCopy{o.Copies[name]})
	}
	return actions
}

// copyName is that of the copy of a Secret.
func copyName(origin string, r hostclaim.Role) string { return targetName(origin) + "-" + string(r) }

// ownedByTarget reports whether a copy goes with the target, if there is one.
func ownedByTarget(secret *metav1.PartialObjectMetadata, target *metal3v1.HostClaim) bool {
	return target == nil || slices.ContainsFunc(secret.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == target.UID
	})
}

func (p *plan) add(r hostclaim.Role, format string, args ...any) {
	p.problems = append(p.problems, Problem{r.Reason(), "Field " + string(r) + ": " + fmt.Sprintf(format, args...)})
}

// problem returns all problems as one, nil if there is none.
func (p *plan) problem() *Problem {
	if len(p.problems) == 0 {
		return nil
	}
	texts := make([]string, len(p.problems))
	for i := range p.problems {
		texts[i] = p.problems[i].Message
	}
	return &Problem{p.problems[0].Reason, strings.Join(texts, "; ")}
}
