package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
)

const instancesID = "instances"

// instances says which namespaces an installation would get beside the instances that are registered.
func (c *checker) instances(ctx context.Context) []Finding {
	leases, err := c.clients.CoordinationV1().Leases(c.LeaderElectNamespace).List(ctx, metav1.ListOptions{LabelSelector: archelonv1.InstanceLabel})
	if err != nil {
		return []Finding{unseen(instancesID, "The Leases of other instances", err)}
	}
	return []Finding{c.divide(leases.Items)}
}

// divide says what of its claim an installation would get.
func (c *checker) divide(leases []coordinationv1.Lease) Finding {
	f := Finding{ID: instancesID, State: OK}
	name := cmp.Or(c.Instance, c.claim.Scope.LeaseName("archelon"))
	self := instance.Registered{ID: instance.ID{Namespace: c.LeaderElectNamespace, Name: name}, Claim: c.claim, Since: c.now(), Alive: true}
	var all []instance.Registered
	var places []string
	for i := range leases {
		one, err := instance.Read(&leases[i])
		if err != nil {
			f.State, f.Message = Warning, sentence(err.Error())
			f.Remedy = "Delete that Lease, if no instance has it."
			return f
		}
		one.Alive = instance.Held(&leases[i], c.now())
		all = append(all, one)
		places = append(places, one.Namespace)
		if one.Name == name && c.LeaderElectNamespace == "" {
			self.Namespace = one.Namespace
		}
	}
	slices.Sort(places)
	if places = slices.Compact(places); len(places) > 1 {
		f.State = Warning
		f.Message = fmt.Sprintf("Instances are registered in %s. Those of different namespaces do not know of each other.", strings.Join(places, " and "))
		f.Remedy = "Give all of them the same coordination namespace, or check one with --leader-elect-namespace."
		return f
	}
	upgrade := slices.IndexFunc(all, func(r instance.Registered) bool { return r.ID == self.ID })
	if upgrade >= 0 {
		self.Since = all[upgrade].Since
	}
	return c.share(f, self, all, upgrade >= 0)
}

// share says what an instance gets beside the others.
func (c *checker) share(f Finding, self instance.Registered, all []instance.Registered, upgrade bool) Finding {
	share := instance.Divide(self, all)
	owned := share.Owned(self.Claim)
	var peers []string
	gone := false
	for _, part := range share.Left {
		peers = append(peers, fmt.Sprintf("%s has %s", part.Peer, part.Scope.MetricsLabel()))
		gone = gone || part.Gone
	}
	beside := strings.Join(peers, ", and ")
	switch {
	case owned.Empty():
		f.State = Error
		f.Message = fmt.Sprintf("Instance %s would get no namespace: %s.", self.Name, beside)
		f.Remedy = "Name the instance that is upgraded with --instance, install it into other namespaces, or uninstall the other one."
	case gone:
		f.State = Warning
		f.Message = fmt.Sprintf("Instance %s gets %s. Of the rest, %s, and not all of these run.", self.Name, owned.MetricsLabel(), beside)
		f.Remedy = "Start the other instance, or uninstall it. What names a namespace has it until then."
	case len(peers) > 0:
		f.Message = fmt.Sprintf("Instance %s gets %s. Of the rest, %s.", self.Name, owned.MetricsLabel(), beside)
	case upgrade:
		f.Message = fmt.Sprintf("Instance %s is registered, and no other one has any of %s.", self.Name, owned.MetricsLabel())
	default:
		f.Message = fmt.Sprintf("No other instance has any of %s.", owned.MetricsLabel())
	}
	return f
}
