package uninstall

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// reach waits until all namespaces of the scope can be worked in, before the manager is stopped: where the uninstaller
// can do nothing, nobody would let clusters go after that.
func (u *uninstaller) reach(ctx context.Context) error {
	return u.until(ctx, func(ctx context.Context) (bool, error) {
		_, err := u.held(ctx)
		return err == nil, err
	})
}

// whyForbidden returns what a missing right in a namespace of an isolated instance means: nil if the instance has no
// rights there either, and so holds nothing, unless somebody has taken its RoleBinding away. That cannot be seen from
// here, so it is said. The instance's RoleBinding stays as long as it holds something; the uninstaller's does not.
func (u *uninstaller) whyForbidden(ctx context.Context, namespace string, forbidden error) error {
	if namespace == "" {
		return forbidden
	}
	binding := named(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
	switch err := u.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: archelonv1.IsolatedRoleBinding}, binding); {
	case apierrors.IsNotFound(err):
		u.saySkipped(ctx, namespace)
		return nil
	case err != nil:
		return fmt.Errorf("getting RoleBinding %s in namespace %s: %w", archelonv1.IsolatedRoleBinding, namespace, err)
	}
	found := named(corev1.SchemeGroupVersion.WithKind("Namespace"))
	switch err := u.client.Get(ctx, client.ObjectKey{Name: namespace}, found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("getting namespace %s: %w", namespace, err)
	case deleting(found):
		return fmt.Errorf("namespace %s is being deleted and the manager, as long as it runs, lets its clusters go: uninstall when the namespace is gone: %w", namespace, forbidden)
	default:
		return fmt.Errorf("the RoleBinding of the uninstaller in namespace %s is missing: upgrade the release with the values that it has, which makes it again: %w", namespace, forbidden)
	}
}

// saySkipped says once that a namespace was not looked into, if it exists.
func (u *uninstaller) saySkipped(ctx context.Context, namespace string) {
	if u.skipped.Has(namespace) {
		return
	}
	found := named(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := u.client.Get(ctx, client.ObjectKey{Name: namespace}, found); apierrors.IsNotFound(err) {
		return
	}
	u.skipped.Insert(namespace)
	u.say("Skipped namespace %s: there is no RoleBinding %s in it, so this instance holds nothing there, unless the RoleBinding was removed: "+
		"look for CAPI clusters with finalizer %s in it", namespace, archelonv1.IsolatedRoleBinding, archelonv1.ImportFinalizer)
}
