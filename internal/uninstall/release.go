package uninstall

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
)

type object = hold.Object

// pass releases what it finds, and returns how much of that was not released before in this run. Another program may
// put a finalizer back as often as it is removed: the uninstallation ends nevertheless.
func (u *uninstaller) pass(ctx context.Context) (int, error) {
	if err := u.lookForOthers(ctx); err != nil {
		return 0, err
	}
	found := 0
	var left []object
	errs := u.lister().Visit(ctx, hold.Visitor{
		Created: func(holding hold.Holding, created, owner *object) error {
			if !u.ours(holding, created, owner) {
				return nil
			}
			return u.once(&found, holding.Finalizer, created, func() error {
				return u.releaseCreated(ctx, holding, created, u.opts.DeleteRancherClusters && (owner == nil || u.covers(owner) && !u.ofAnother(owner)))
			})
		},
		Held: func(holding hold.Holding, held *object) error {
			if holding.Unmarked {
				if !u.inMine(held) {
					return nil
				}
				return u.once(&found, holding.Finalizer, held, func() error { return u.releaseClaim(ctx, holding, held) })
			}
			if !u.mine(held) {
				left = append(left, *held)
				return nil
			}
			return u.once(&found, holding.Finalizer, held, func() error { return u.releaseObject(ctx, holding, held) })
		},
	})
	if len(errs) > 0 {
		return found, few(errs)
	}
	if u.opts.OnlyHostClaims {
		return found, nil
	}
	bindings, err := u.releaseBindings(ctx)
	if found += bindings; found == 0 && err == nil {
		u.sayLeft(left)
	}
	return found, err
}

// heldOnce is one finalizer on one object.
type heldOnce struct {
	by     hold.Finalizer
	object string
	uid    types.UID
}

// once releases an object and counts it, unless it was released before in this run. Then it is released again, without
// being counted and whatever comes of it. A dry run does neither.
func (u *uninstaller) once(found *int, by hold.Finalizer, o *object, release func() error) error {
	key := heldOnce{by, describe(o), o.UID}
	switch {
	case u.dry:
		u.planned = append(u.planned, describe(o))
		return nil
	case u.released.Has(key):
		u.again.Insert(describe(o))
		before := u.count
		_ = release()
		u.count = before
		return nil
	}
	*found++
	if err := release(); err != nil {
		return err
	}
	const progress = 100
	if u.released.Insert(key); len(u.released)%progress == 0 {
		u.say("Released %d objects", len(u.released))
	}
	return nil
}

// lister lists wherever the uninstaller has permissions, which is more than the scope of the instance: that may have
// been narrowed, and what was taken before is still held.
func (u *uninstaller) lister() hold.Lister {
	holdings := hold.From(u.origin, u.opts.holdings())
	if u.opts.LeaveRancher {
		holdings = here(holdings)
	}
	return hold.Lister{
		Reader: u.client, Holdings: holdings, Namespaces: u.scope.Included(), Forbidden: u.whyForbidden,
	}
}

// held returns the objects of others that controllers hold.
func (u *uninstaller) held(ctx context.Context) ([]object, error) { return u.lister().Objects(ctx) }

// mine reports whether the CAPI cluster is this instance's: it names it, also one that has left the scope and that
// nobody has taken over, or it is in the scope and names nobody, or an instance that is not there any more.
//
// If the instance is known by what names it alone, nothing else is its own: its namespaces are not known.
func (u *uninstaller) mine(cluster *object) bool {
	if u.namedOnly {
		return u.isNamed(cluster)
	}
	switch cluster.Annotations[archelonv1.InstanceAnnotation] {
	case u.self.String():
		return true
	case "":
		return u.covers(cluster)
	default:
		return u.covers(cluster) && !u.others.has(cluster)
	}
}

// ofAnother reports whether the CAPI cluster names another instance, perhaps one that is gone. Its Rancher cluster is
// never deleted: the other one may be registered in another namespace.
func (u *uninstaller) ofAnother(cluster *object) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return by != "" && by != u.self.String()
}

// covers reports whether the CAPI cluster is in the scope that the instance has now.
func (u *uninstaller) covers(cluster *object) bool {
	return instance.Claim{Scope: u.scope, WatchFilter: u.opts.WatchFilter}.Covers(cluster)
}

// ours reports whether something that was created is this instance's, as the object is that it was created for. If
// that is gone, it is of whoever has the namespace in the scope; which watch filter the object had nobody knows.
func (u *uninstaller) ours(holding hold.Holding, created, owner *object) bool {
	if owner != nil {
		return u.mine(owner)
	}
	return !u.namedOnly && u.opts.WatchFilter == "" && u.scope.Owns(created.Labels[holding.NamespaceLabel])
}

// releaseCreated takes the finalizer off a Rancher cluster. One that is to be deleted is deleted first: should the
// process die between the two, the finalizer still says that there is something to do.
func (u *uninstaller) releaseCreated(ctx context.Context, holding hold.Holding, record *object, remove bool) error {
	if remove && !deleting(record) {
		if err := u.deleteRecord(ctx, record); err != nil {
			return err
		}
	}
	if err := hold.Release(ctx, u.client, record, func() { holding.Drop(record, false) }); err != nil {
		return err
	}
	u.count.records++
	return nil
}

// deleteRecord deletes a Rancher cluster, unless Rancher would delete a CAPI cluster of the same
// namespace and name together with it.
func (u *uninstaller) deleteRecord(ctx context.Context, record *object) error {
	if record.Namespace != "" {
		switch err := u.client.Get(ctx, client.ObjectKeyFromObject(record), named(clusterv1.GroupVersion.WithKind("Cluster"))); {
		case err == nil:
			u.say("%s stays: Rancher would delete the CAPI cluster of the same name together with it", describe(record))
			return nil
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("looking for a CAPI cluster of the name of %s: %w", describe(record), err)
		}
	}
	// Another instance may take it over until then. What Rancher changes is looked at again in the next pass.
	uid, version := record.UID, record.ResourceVersion
	preconditions := client.Preconditions{UID: &uid, ResourceVersion: &version}
	if err := u.client.Delete(ctx, record, preconditions); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting %s: %w", describe(record), err)
	}
	u.count.deleted++
	u.say("Deleted %s", describe(record))
	// The deletion has changed it.
	if err := u.client.Get(ctx, client.ObjectKeyFromObject(record), record); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %s: %w", describe(record), err)
	}
	return nil
}

// releaseObject takes the finalizer off a CAPI cluster. What names its Rancher cluster stays as long as that does: an
// instance that is installed later goes on with it. That is also why a Rancher cluster stays if its CAPI cluster is not
// in the scope any more: it may be meant for another instance.
func (u *uninstaller) releaseObject(ctx context.Context, holding hold.Holding, cluster *object) error {
	inside := u.covers(cluster)
	recordDeleted := u.opts.DeleteRancherClusters && inside && !u.ofAnother(cluster)
	if deleting(cluster) && !recordDeleted {
		u.say("%s is being deleted and the manager has not deleted its Rancher cluster %s: delete it in Rancher", describe(cluster), cluster.Annotations[archelonv1.RecordAnnotation])
	}
	if err := hold.Release(ctx, u.client, cluster, func() { holding.Drop(cluster, recordDeleted) }); err != nil {
		return err
	}
	u.count.clusters++
	if !inside {
		u.count.outside++
	}
	return nil
}

// releaseNamespace is the annotation of Helm with the namespace of the release that an object is part of.
const releaseNamespace = "meta.helm.sh/release-namespace"

// releaseBindings releases the RoleBindings of the instance's namespaces, so that they can be deleted.
func (u *uninstaller) releaseBindings(ctx context.Context) (int, error) {
	found := 0
	var errs []error
	for _, namespace := range u.scope.Included() {
		binding := named(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
		err := u.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: archelonv1.IsolatedRoleBinding}, binding)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("getting RoleBinding %s in namespace %s: %w", archelonv1.IsolatedRoleBinding, namespace, err))
			continue
		case !hold.Role.On(binding) || u.namedOnly && binding.Annotations[releaseNamespace] != u.opts.InstanceNamespace:
			continue
		}
		err = u.once(&found, hold.Role, binding, func() error {
			if err := hold.Release(ctx, u.client, binding, func() { hold.Role.Remove(binding) }); err != nil {
				return err
			}
			u.count.bindings++
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
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
