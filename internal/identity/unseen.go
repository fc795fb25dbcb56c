package identity

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// Unseen is where clusters may use an identity that an instance does not receive. The zero value is nowhere.
type Unseen struct {
	// Namespaces are those that spec.allowedNamespaces lists, and that the instance does not work in.
	Namespaces []string
	// Others is whether spec.allowedNamespaces admits namespaces that it does not list. What their labels are, an
	// instance knows of its own namespaces alone.
	Others bool
}

// UnseenBy returns what an instance that works in a scope does not see of the clusters that may use an identity. It
// receives every OCICluster and OCIManagedCluster of its scope: a watch filter is for CAPI Clusters alone. It is pure.
func UnseenBy(scope shard.Scope, allowed *identityv1.AllowedNamespaces) Unseen {
	if scope.All() || allowed == nil {
		return Unseen{}
	}
	return Unseen{
		Namespaces: slices.DeleteFunc(slices.Clone(allowed.NamespaceList), scope.Owns), Others: admitsOthers(allowed),
	}
}

// admitsOthers reports whether Archelon or CAPOCI admits namespaces that are not in the list.
func admitsOthers(allowed *identityv1.AllowedNamespaces) bool {
	if allowed.Selector == nil {
		return allowed.Open() || allowed.NullList
	}
	selector, err := oci.SelectorOf(allowed)
	return err == nil && !selector.Empty()
}

// None reports whether the instance sees all clusters that may use the identity.
func (u Unseen) None() bool { return len(u.Namespaces) == 0 && !u.Others }

// maybe says that clusters may use the identity which the instance does not see, and what to do about it.
func (u Unseen) maybe() string {
	const remedy = "Until that is known, the identity and its Secret are protected as if they were in use. " +
		"Let spec.allowedNamespaces list namespaces of this instance alone. " +
		"Or make sure that no cluster uses the identity, and set its annotation %s to true"
	return "Archelon does not know whether clusters of " + u.where() + " use the identity. " +
		fmt.Sprintf(remedy, infrav1.AllowDeletionAnnotation)
}

// more says beside a list of clusters that there may be others.
func (u Unseen) more() string { return "Clusters of " + u.where() + " may use it as well" }

func (u Unseen) where() string {
	const notHere = "in which this instance of Archelon does not work"
	var places []string
	if len(u.Namespaces) > 0 {
		places = append(places, "namespaces "+controller.Head(list(u.Namespaces), maxText)+", "+notHere)
	}
	if u.Others {
		places = append(places, "any namespaces "+notHere+" and which spec.allowedNamespaces admits")
	}
	return strings.Join(places, ", and of ")
}
