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

// clusters returns the CAPI clusters in the scope.
func (u *uninstaller) clusters(ctx context.Context) ([]object, error) {
	var options []client.ListOption
	if u.opts.WatchFilter != "" {
		options = append(options, client.MatchingLabels{clusterv1.WatchLabel: u.opts.WatchFilter})
	}
	return u.list(ctx, clusterv1.GroupVersion.WithKind("Cluster"), options...)
}

// list returns the objects of a kind in the scope. A kind that does not exist has none, nor has a namespace in which the instance has no rights.
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
		for i := range list.Items {
			if u.scope.Owns(list.Items[i].Namespace) {
				found = append(found, list.Items[i])
			}
		}
	}
	return found, nil
}

// mine reports whether no other instance works on the CAPI cluster.
func (u *uninstaller) mine(cluster *object) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return by == "" || by == u.self.String()
}

// releaseRecords lets go of the Rancher clusters in the scope, but for those of CAPI clusters that another instance works on.
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
		if !u.scope.Owns(record.Labels[archelonv1.OwnerNamespaceLabel]) || !held(&record) || !u.ours(&record, clusters) {
			continue
		}
		found++
		if err := u.releaseRecord(ctx, &record); err != nil {
			errs = append(errs, err)
		}
	}
	return found, errs
}

// ours reports whether the CAPI cluster of a record is this instance's. One that does not exist is nobody's, unless a watch filter hides it.
func (u *uninstaller) ours(record *object, clusters []object) bool {
	for i := range clusters {
		if string(clusters[i].UID) == record.Labels[archelonv1.OwnerUIDLabel] {
			return u.mine(&clusters[i])
		}
	}
	return u.opts.WatchFilter == ""
}

// releaseRecord takes the finalizer off a Rancher cluster. One that is to be deleted is deleted first: should the process die between the two,
// the finalizer still says that there is something to do.
func (u *uninstaller) releaseRecord(ctx context.Context, record *object) error {
	if u.opts.DeleteRecords && !deleting(record) {
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
// later goes on with it.
func (u *uninstaller) releaseCluster(ctx context.Context, cluster *object) error {
	if deleting(cluster) && !u.opts.DeleteRecords {
		u.say("%s is being deleted and the manager has not deleted its Rancher cluster %s: delete it in Rancher", describe(cluster), cluster.Annotations[archelonv1.RecordAnnotation])
	}
	err := u.patch(ctx, cluster, func() {
		controllerutil.RemoveFinalizer(cluster, archelonv1.ImportFinalizer)
		delete(cluster.Annotations, archelonv1.InstanceAnnotation)
		if u.opts.DeleteRecords {
			delete(cluster.Annotations, archelonv1.RecordAnnotation)
		}
	})
	if err != nil {
		return err
	}
	u.count.clusters++
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
