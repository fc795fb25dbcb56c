package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
)

// registered are the other instances, by the names that they write on what they work on.
type registered map[string]instance.Registered

// has reports whether a CAPI cluster that names another instance is to be left to that: it runs, or it names the
// namespace and so comes back to it. What names an instance that is not registered is nobody's.
func (r registered) has(cluster *object) bool {
	other, ok := r[cluster.Annotations[archelonv1.InstanceAnnotation]]
	return ok && other.Covers(cluster) && (other.Alive || len(other.Scope.Included()) > 0)
}

// workIn reports whether another instance works in a namespace, or names it and so comes back to it.
func (r registered) workIn(namespace string) bool {
	for _, other := range r {
		if other.Alive && other.Works.Owns(namespace) || slices.Contains(other.Scope.Included(), namespace) {
			return true
		}
	}
	return false
}

// lookForOthers reads who else is registered. Only Leases in the coordination namespace are believed.
func (u *uninstaller) lookForOthers(ctx context.Context) error {
	leases := &coordinationv1.LeaseList{}
	if err := u.home.List(ctx, leases, client.InNamespace(u.self.Namespace), client.HasLabels{archelonv1.InstanceLabel}); err != nil {
		return fmt.Errorf("listing the Leases of instances: %w", err)
	}
	u.others = registered{}
	for i := range leases.Items {
		if other, err := instance.Read(&leases.Items[i]); err == nil && other.ID != u.self {
			other.Alive = instance.Held(&leases.Items[i], time.Now())
			u.others[other.String()] = other
		}
	}
	return nil
}

// sayLeft says which CAPI clusters in the scope stay held, because another instance works on them.
func (u *uninstaller) sayLeft(clusters []object) {
	left := map[string][]string{}
	for i := range clusters {
		if !u.mine(&clusters[i]) && u.covers(&clusters[i]) && held(&clusters[i]) {
			by := clusters[i].Annotations[archelonv1.InstanceAnnotation]
			left[by] = append(left[by], client.ObjectKeyFromObject(&clusters[i]).String())
		}
	}
	for _, by := range slices.Sorted(maps.Keys(left)) {
		slices.Sort(left[by])
		u.say("Left to instance %s, which works on them: CAPI clusters %s", by, some(left[by]))
	}
}
