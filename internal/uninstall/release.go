package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
)

type object = metav1.PartialObjectMetadata

// pass lets go of what it finds, Rancher clusters first: a CAPI cluster that is let go may be gone at once, and its records must not be held then.
// It returns how much it found.
func (u *uninstaller) pass(ctx context.Context) (int, error) {
	clusters, err := u.clusters(ctx)
	if err != nil {
		return 0, err
	}
	found, errs := u.releaseRecords(ctx, clusters)
	if len(errs) > 0 {
		return found, few(errs)
	}
	for i := range clusters {
		cluster := &clusters[i]
		if !u.mine(cluster) || !held(cluster) {
			continue
		}
		found++
		if err := u.releaseCluster(ctx, cluster); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return found, few(errs)
	}
	bindings, err := u.releaseBindings(ctx)
	if found += bindings; found == 0 && err == nil {
		u.sayLeft(clusters)
	}
	return found, err
}

// clusters returns the CAPI clusters wherever the uninstaller has rights, which is more than the scope of the instance: that may have been narrowed,
// and what was imported before is still held.
func (u *uninstaller) clusters(ctx context.Context) ([]object, error) {
	return u.list(ctx, clusterv1.GroupVersion.WithKind("Cluster"))
}

// list returns the objects of a kind in the namespaces of an isolated instance, or in all. A kind that does not exist has none, nor has a namespace in
// which the instance has no rights.
func (u *uninstaller) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]object, error) {
	namespaces := u.scope.Included()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var found []object
	for _, namespace := range namespaces {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := u.client.List(ctx, list, append(options, client.InNamespace(namespace))...)
		if apierrors.IsForbidden(err) && namespace != "" {
			err = u.whyForbidden(ctx, namespace, err)
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("listing %s.%s: %w", kind.Kind, kind.Group, err)
		}
		found = append(found, list.Items...)
	}
	return found, nil
}

// mine reports whether the CAPI cluster is this instance's: it names it, also one that has left the scope and that nobody has taken over, or it is in
// the scope and names nobody, or the name alone. That is how a manager names itself that runs without leader election, from outside the
// cluster for example: it has no Lease, so it has no namespace.
func (u *uninstaller) mine(cluster *object) bool {
	switch cluster.Annotations[archelonv1.InstanceAnnotation] {
	case u.self.String():
		return true
	case "", u.self.Name:
		return u.covers(cluster)
	default:
		return false
	}
}

// covers reports whether the CAPI cluster is in the scope that the instance has now.
func (u *uninstaller) covers(cluster *object) bool {
	return instance.Claim{Scope: u.scope, WatchFilter: u.opts.WatchFilter}.Covers(cluster)
}

// releaseRecords lets go of the Rancher clusters of this instance's CAPI clusters, and of those whose CAPI cluster is gone.
func (u *uninstaller) releaseRecords(ctx context.Context, clusters []object) (int, []error) {
	var errs []error
	records, err := u.list(ctx, provisioningv1.SchemeGroupVersion.WithKind("Cluster"), client.HasLabels{archelonv1.OwnerUIDLabel})
	if err != nil {
		return 0, []error{err}
	}
	management := &metav1.PartialObjectMetadataList{}
	management.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	if err := u.client.List(ctx, management, client.HasLabels{archelonv1.OwnerUIDLabel}); client.IgnoreNotFound(err) != nil {
		return 0, []error{fmt.Errorf("listing v3 Rancher clusters: %w", err)}
	}
	found := 0
	for _, record := range slices.Concat(records, management.Items) {
		owner := ownerOf(&record, clusters)
		if !held(&record) || !u.ours(&record, owner) {
			continue
		}
		found++
		if err := u.releaseRecord(ctx, &record, u.opts.DeleteRecords && (owner == nil || u.covers(owner))); err != nil {
			errs = append(errs, err)
		}
	}
	return found, errs
}

// ownerOf returns the CAPI cluster that a record was made for, nil if it is not among them.
func ownerOf(record *object, clusters []object) *object {
	for i := range clusters {
		if string(clusters[i].UID) == record.Labels[archelonv1.OwnerUIDLabel] {
			return &clusters[i]
		}
	}
	return nil
}

// ours reports whether a record is this instance's, as its CAPI cluster is. If that is gone, it is the record of whoever has the namespace in the
// scope; which watch filter the CAPI cluster had nobody knows.
func (u *uninstaller) ours(record, owner *object) bool {
	if owner != nil {
		return u.mine(owner)
	}
	return u.opts.WatchFilter == "" && u.scope.Owns(record.Labels[archelonv1.OwnerNamespaceLabel])
}

// releaseRecord takes the finalizer off a Rancher cluster. One that is to be deleted is deleted first: should the process die between the two,
// the finalizer still says that there is something to do.
func (u *uninstaller) releaseRecord(ctx context.Context, record *object, remove bool) error {
	if remove && !deleting(record) {
		if err := u.deleteRecord(ctx, record); err != nil {
			return err
		}
	}
	if err := u.patch(ctx, record, func() { controllerutil.RemoveFinalizer(record, archelonv1.ImportFinalizer) }); err != nil {
		return err
	}
	u.count.records++
	return nil
}

// deleteRecord deletes a Rancher cluster, unless Rancher would delete a CAPI cluster of the same namespace and name together with it.
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
	uid := record.UID
	if err := u.client.Delete(ctx, record, client.Preconditions{UID: &uid}); err != nil {
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

// releaseCluster takes the finalizer off a CAPI cluster. What names its Rancher cluster stays as long as that does: an instance that is installed
// later goes on with it. That is also why a Rancher cluster stays if its CAPI cluster is not in the scope any more: it may be meant for another instance.
func (u *uninstaller) releaseCluster(ctx context.Context, cluster *object) error {
	inside := u.covers(cluster)
	recordDeleted := u.opts.DeleteRecords && inside
	if deleting(cluster) && !recordDeleted {
		u.say("%s is being deleted and the manager has not deleted its Rancher cluster %s: delete it in Rancher", describe(cluster), cluster.Annotations[archelonv1.RecordAnnotation])
	}
	err := u.patch(ctx, cluster, func() {
		controllerutil.RemoveFinalizer(cluster, archelonv1.ImportFinalizer)
		delete(cluster.Annotations, archelonv1.InstanceAnnotation)
		if recordDeleted {
			delete(cluster.Annotations, archelonv1.RecordAnnotation)
			delete(cluster.Annotations, archelonv1.StrategySwitchAnnotation)
		}
	})
	if err != nil {
		return err
	}
	u.count.clusters++
	if !inside {
		u.count.outside++
	}
	return nil
}

// releaseBindings lets the RoleBindings of the instance's namespaces go, so that they can be deleted.
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
		case !controllerutil.ContainsFinalizer(binding, archelonv1.RoleFinalizer):
			continue
		}
		found++
		if err := u.patch(ctx, binding, func() { controllerutil.RemoveFinalizer(binding, archelonv1.RoleFinalizer) }); err != nil {
			errs = append(errs, err)
			continue
		}
		u.count.bindings++
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

// patch changes metadata of an object under its lock.
func (u *uninstaller) patch(ctx context.Context, o *object, change func()) error {
	before := o.DeepCopy()
	change()
	err := u.client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting %s go: %w", describe(before), err)
	}
	return nil
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

func held(o *object) bool { return controllerutil.ContainsFinalizer(o, archelonv1.ImportFinalizer) }

func deleting(o *object) bool { return !o.DeletionTimestamp.IsZero() }
