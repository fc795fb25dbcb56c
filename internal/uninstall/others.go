package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
)

// checkOthers fails if a CAPI cluster in the scope is held and names an instance that does not work on it any more. The manager takes such
// a cluster over, as long as it runs and the cluster is not paused. After it nobody would take the finalizer off. Whether that instance comes back
// the uninstaller does not know, and with its record it would take what may be another's: a person decides.
func (u *uninstaller) checkOthers(ctx context.Context, clusters []object) error {
	others, err := u.others(ctx)
	if err != nil {
		return err
	}
	return few(u.forsaken(clusters, others))
}

// forsaken returns an error for each CAPI cluster that is held for an instance which does not work on it.
func (u *uninstaller) forsaken(clusters []object, others map[string]instance.Claim) []error {
	var errs []error
	for i := range clusters {
		cluster := &clusters[i]
		if u.mine(cluster) || !u.covers(cluster) || !held(cluster) {
			continue
		}
		by := cluster.Annotations[archelonv1.InstanceAnnotation]
		if claim, alive := others[by]; alive && claim.Covers(cluster) {
			continue
		}
		errs = append(errs, fmt.Errorf("%s is held for instance %s, which does not work on it: resume it if it is paused, so that the manager takes it over, "+
			"or remove its annotation %s, then uninstall again", describe(cluster), by, archelonv1.InstanceAnnotation))
	}
	return errs
}

// others returns what the other instances claim that are alive. Only Leases in the coordination namespace are believed.
func (u *uninstaller) others(ctx context.Context) (map[string]instance.Claim, error) {
	leases := &coordinationv1.LeaseList{}
	if err := u.client.List(ctx, leases, client.InNamespace(u.self.Namespace), client.HasLabels{archelonv1.InstanceLabel}); err != nil {
		return nil, fmt.Errorf("listing the Leases of instances: %w", err)
	}
	claims := map[string]instance.Claim{}
	for i := range leases.Items {
		id, claim, err := instance.Announced(&leases.Items[i])
		if err == nil && id != u.self && alive(&leases.Items[i], time.Now()) {
			claims[id.String()] = claim
		}
	}
	return claims, nil
}

// sayLeft says which CAPI clusters in the scope stay held, because another instance works on them.
func (u *uninstaller) sayLeft(clusters []object) {
	const most = 10
	left := map[string][]string{}
	for i := range clusters {
		if !u.mine(&clusters[i]) && u.covers(&clusters[i]) && held(&clusters[i]) {
			by := clusters[i].Annotations[archelonv1.InstanceAnnotation]
			left[by] = append(left[by], client.ObjectKeyFromObject(&clusters[i]).String())
		}
	}
	for _, by := range slices.Sorted(maps.Keys(left)) {
		names, more := left[by], ""
		slices.Sort(names)
		if len(names) > most {
			names, more = names[:most], fmt.Sprintf(" and %d more", len(left[by])-most)
		}
		u.say("Left to instance %s, which works on them: CAPI clusters %s%s", by, strings.Join(names, ", "), more)
	}
}
