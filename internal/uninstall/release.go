package uninstall

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
)

type object = hold.Object

// pass releases what it finds, and returns how much that was.
func (p *place) pass(ctx context.Context) (int, error) {
	if err := p.lookForOthers(ctx); err != nil {
		return 0, err
	}
	found := 0
	var left []object
	errs := p.lister().Visit(ctx, hold.Visitor{
		Created: func(holding hold.Holding, created, owner *object) error {
			if !p.ours(holding, created, owner) {
				return nil
			}
			found++
			return p.releaseCreated(ctx, holding, created, p.opts.DeleteRecords && (owner == nil || p.covers(owner) && !p.ofAnother(owner)))
		},
		Held: func(holding hold.Holding, held *object) error {
			if holding.Unmarked {
				if !p.inMine(held) {
					return nil
				}
				found++
				return p.releaseClaim(ctx, holding, held)
			}
			if !p.mine(held) {
				left = append(left, *held)
				return nil
			}
			found++
			return p.releaseObject(ctx, holding, held)
		},
	})
	if len(errs) > 0 {
		return found, few(errs)
	}
	if p.opts.OnlyHostClaims {
		return found, nil
	}
	bindings, err := p.releaseBindings(ctx)
	if found += bindings; found == 0 && err == nil {
		p.sayLeft(left)
	}
	return found, err
}

// lister lists wherever the uninstaller has permissions, which is more than the scope of the instance: that may have
// been narrowed, and what was taken before is still held.
func (p *place) lister() hold.Lister {
	return hold.Lister{
		Reader: p.client, Holdings: hold.From(p.origin, p.opts.holdings()), Namespaces: p.scope.Included(), Forbidden: p.whyForbidden,
	}
}

// held returns the objects of others that controllers hold.
func (p *place) held(ctx context.Context) ([]object, error) { return p.lister().Objects(ctx) }

// mine reports whether the CAPI cluster is this instance's: it names it, also one that has left the scope and that
// nobody has taken over, or it is in the scope and names nobody, or an instance that is not there any more, or the name
// alone. That is how a manager names itself that runs without leader election, from outside the cluster for example: it
// has no Lease, so it has no namespace.
func (p *place) mine(cluster *object) bool {
	switch cluster.Annotations[archelonv1.InstanceAnnotation] {
	case p.self.String():
		return true
	case "", p.self.Name:
		return p.covers(cluster)
	default:
		// Who else works in one of many management clusters, another Rancher has perhaps: nobody here knows.
		return p.name == "" && p.covers(cluster) && !p.others.has(cluster)
	}
}

// ofAnother reports whether the CAPI cluster names another instance, perhaps one that is gone. Its Rancher cluster is
// never deleted: the other one may be registered in another namespace.
func (u *uninstaller) ofAnother(cluster *object) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return by != "" && by != u.self.String() && by != u.self.Name
}

// covers reports whether the CAPI cluster is in the scope that the instance has now.
func (u *uninstaller) covers(cluster *object) bool {
	return instance.Claim{Scope: u.scope, WatchFilter: u.opts.WatchFilter}.Covers(cluster)
}

// ours reports whether something that was created is this instance's, as the object is that it was created for. If
// that is gone, it is of whoever has the namespace in the scope; which watch filter the object had nobody knows.
func (p *place) ours(holding hold.Holding, created, owner *object) bool {
	if owner != nil {
		return p.mine(owner)
	}
	return p.opts.WatchFilter == "" && p.scope.Owns(created.Labels[holding.NamespaceLabel])
}

// releaseCreated takes the finalizer off a Rancher cluster. One that is to be deleted is deleted first: should the
// process die between the two, the finalizer still says that there is something to do.
func (p *place) releaseCreated(ctx context.Context, holding hold.Holding, record *object, remove bool) error {
	if remove && !deleting(record) {
		if err := p.deleteRecord(ctx, record); err != nil {
			return err
		}
	}
	if err := hold.Release(ctx, p.client, record, func() { holding.Drop(record, false) }); err != nil {
		return err
	}
	p.count.records++
	return nil
}

// deleteRecord deletes a Rancher cluster, unless Rancher would delete a CAPI cluster of the same
// namespace and name together with it.
func (p *place) deleteRecord(ctx context.Context, record *object) error {
	if record.Namespace != "" {
		switch err := p.client.Get(ctx, client.ObjectKeyFromObject(record), named(clusterv1.GroupVersion.WithKind("Cluster"))); {
		case err == nil:
			p.say("%s stays: Rancher would delete the CAPI cluster of the same name together with it", describe(record))
			return nil
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("looking for a CAPI cluster of the name of %s: %w", describe(record), err)
		}
	}
	uid := record.UID
	if err := p.client.Delete(ctx, record, client.Preconditions{UID: &uid}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting %s: %w", describe(record), err)
	}
	p.count.deleted++
	p.say("Deleted %s", describe(record))
	// The deletion has changed it.
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(record), record); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %s: %w", describe(record), err)
	}
	return nil
}

// releaseObject takes the finalizer off a CAPI cluster. What names its Rancher cluster stays as long as that does: an
// instance that is installed later goes on with it. That is also why a Rancher cluster stays if its CAPI cluster is not
// in the scope any more: it may be meant for another instance.
func (p *place) releaseObject(ctx context.Context, holding hold.Holding, cluster *object) error {
	inside := p.covers(cluster)
	recordDeleted := p.opts.DeleteRecords && inside && !p.ofAnother(cluster)
	if deleting(cluster) && !recordDeleted {
		p.say("%s is being deleted and the manager has not deleted its Rancher cluster %s: delete it in Rancher", describe(cluster), cluster.Annotations[archelonv1.RecordAnnotation])
	}
	if err := hold.Release(ctx, p.client, cluster, func() { holding.Drop(cluster, recordDeleted) }); err != nil {
		return err
	}
	p.count.clusters++
	if !inside {
		p.count.outside++
	}
	return nil
}

// releaseBindings lets the RoleBindings of the instance's namespaces go, so that they can be deleted.
func (p *place) releaseBindings(ctx context.Context) (int, error) {
	found := 0
	var errs []error
	for _, namespace := range p.scope.Included() {
		binding := named(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
		err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: archelonv1.IsolatedRoleBinding}, binding)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("getting RoleBinding %s in namespace %s: %w", archelonv1.IsolatedRoleBinding, namespace, err))
			continue
		case !hold.Role.On(binding):
			continue
		}
		found++
		if err := hold.Release(ctx, p.client, binding, func() { hold.Role.Remove(binding) }); err != nil {
			errs = append(errs, err)
			continue
		}
		p.count.bindings++
	}
	return found, few(errs)
}

// few returns the first errors of many: they mostly have one cause.
func few(errs []error) error {
	const most = 3
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

func named(kind schema.GroupVersionKind) *object {
	o := &object{}
	o.SetGroupVersionKind(kind)
	return o
}

func describe(o *object) string {
	kind := o.GroupVersionKind()
	return fmt.Sprintf("%s.%s %s", kind.Kind, kind.Group, client.ObjectKeyFromObject(o))
}

// held reports whether the import holds a CAPI cluster.
func held(o *object) bool { return hold.Import.On(o) }

func deleting(o *object) bool { return !o.DeletionTimestamp.IsZero() }
