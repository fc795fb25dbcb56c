package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/shard"
)

// leave releases what the instance holds in namespaces that it gives up, as a manager does that has just started.
func (p *plans) leave(ctx context.Context, self instance.ID, namespaces []string) error {
	for _, namespace := range namespaces {
		p.world.changes, p.world.does = nil, "release it: its namespace is none of the instance's any more"
		if _, err := hold.Leave(ctx, p.world, p.world, hold.From(p.origin, []hold.Holding{hold.Imports()}), namespace, self.String()); err != nil {
			return fmt.Errorf("planning to leave namespace %s: %w", namespace, err)
		}
		for _, change := range p.world.changes {
			key := client.ObjectKey{Namespace: namespace, Name: p.world.ownerOf(change)}
			if p.made[key] == nil {
				p.made[key] = &Cluster{Namespace: key.Namespace, Name: key.Name, Intent: "leave its namespace"}
			}
			p.made[key].Changes = append(p.made[key].Changes, change)
		}
	}
	return nil
}

// place says which instance the manager would be, what it was before if it is registered, and which of the namespaces
// of its scope it would get beside others.
func (f *found) place(
	opts *options.Options,
) (self instance.ID, before instance.Registered, claim instance.Claim, err error) {
	scope, err := opts.Scope()
	if err != nil {
		return self, before, claim, err
	}
	before.Scope = shard.None()
	me, all := f.registered(opts, scope)
	if at := slices.IndexFunc(all, func(r instance.Registered) bool { return r.ID == me.ID }); at >= 0 {
		before, me.Since = all[at], all[at].Since
	}
	share := instance.Divide(me, all)
	claim = me.Claim
	claim.Scope = share.Owned(me.Claim)
	return me.ID, before, claim, nil
}

// registered returns the instance that the manager would be, and those that are registered where it would be.
func (f *found) registered(opts *options.Options, scope shard.Scope) (instance.Registered, []instance.Registered) {
	claim, _ := opts.Claim(scope) // The options were validated.
	self := instance.Registered{
		ID:    instance.ID{Namespace: opts.LeaderElectNamespace, Name: setup.InstanceName(opts, scope)},
		Claim: claim, Since: time.Now(), Alive: true,
	}
	all := f.running()
	for _, one := range all {
		if one.Name == self.Name && (self.Namespace == "" || self.Namespace == one.Namespace) {
			self.Namespace = one.Namespace
		}
	}
	if self.Namespace == "" && len(all) > 0 {
		self.Namespace = all[0].Namespace // Those that share a management cluster have one for their Leases.
	}
	self.Namespace = cmp.Or(self.Namespace, defaultNamespace)
	return self, slices.DeleteFunc(all, func(r instance.Registered) bool { return r.Namespace != self.Namespace })
}

// defaultNamespace is where the chart is installed if nobody says otherwise.
const defaultNamespace = "archelon-system"

// running returns the instances by their Leases, and which of them run.
func (f *found) running() []instance.Registered {
	var all []instance.Registered
	for i := range f.instances {
		one, err := instance.Read(&f.instances[i])
		if err != nil {
			continue // It is none.
		}
		one.Alive = instance.Held(&f.instances[i], time.Now())
		all = append(all, one)
	}
	return all
}

// keeps reports whether another instance has a CAPI cluster, see instance.Keeps.
func (f *found) keeps(self instance.ID, claim instance.Claim) func(client.Object, map[string]string) bool {
	me, all := instance.Registered{ID: self, Claim: claim, Since: time.Now()}, f.running()
	if at := slices.IndexFunc(all, func(r instance.Registered) bool { return r.ID == self }); at >= 0 {
		me.Since = all[at].Since
	}
	return func(cluster client.Object, namespace map[string]string) bool {
		return instance.Keeps(me, all, cluster, namespace)
	}
}

// runs reports whether another instance runs.
func (f *found) runs(name string) bool {
	return slices.ContainsFunc(f.running(), func(r instance.Registered) bool { return r.String() == name && r.Alive })
}
