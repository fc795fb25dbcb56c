// Package rolekeeper keeps the rights of an isolated instance in a namespace that is being deleted until nothing there needs them. Kubernetes
// deletes what is in such a namespace in no order that helps: without its RoleBinding the instance may not take its finalizer off CAPI clusters, and the
// namespace is stuck. A finalizer on the RoleBinding holds it, and with it the rights, for RBAC does not care whether a RoleBinding is being deleted.
package rolekeeper

import (
	"context"
	"errors"
	"fmt"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// roleBinding is the name of the RoleBinding that gives a namespace to an isolated instance.
const roleBinding = "archelon-isolated"

// Reconciler lets RoleBindings go. All fields are required.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Reviews tell whether the instance may do it: one that has its rights by a ClusterRoleBinding needs no RoleBinding.
	Reviews authorizationclient.SelfSubjectAccessReviewInterface
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.APIReader == nil || r.Reviews == nil {
		return errors.New("the role keeper needs a client, a reader and access reviews")
	}
	itsNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetNamespace()}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("role-keeper").
		For(metadata(corev1.SchemeGroupVersion.WithKind("Namespace")), builder.WithPredicates(predicate.NewPredicateFuncs(deleting))).
		Watches(&clusterv1.Cluster{}, itsNamespace, builder.WithPredicates(gone())).
		Watches(&provisioningv1.Cluster{}, itsNamespace, builder.WithPredicates(gone())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller role-keeper: %w", err)
	}
	return nil
}

// gone admits what is deleted.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reconcile lets the RoleBinding of a namespace go that is being deleted and holds nothing that the instance has to let go before.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	namespace := metadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, req.NamespacedName, namespace); err != nil || !deleting(namespace) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if may, err := r.may(ctx, req.Name); err != nil || !may {
		return ctrl.Result{}, err
	}
	// The order matters: a RoleBinding that is read first is none of a later namespace of this name, which the lock below shows.
	binding := metadata(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: req.Name, Name: roleBinding}, binding); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := binding.DeepCopy()
	if !controllerutil.RemoveFinalizer(binding, archelonv1.RoleFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.APIReader.Get(ctx, req.NamespacedName, namespace); err != nil || !deleting(namespace) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if needed, err := r.needed(ctx, req.Name); err != nil || needed {
		return ctrl.Result{}, err
	}
	err := r.Client.Patch(ctx, binding, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("letting RoleBinding %s go: %w", roleBinding, err)
	}
	ctrl.LoggerFrom(ctx).Info("Let go of the rights in a namespace that is being deleted", "namespace", req.Name)
	return ctrl.Result{}, nil
}

// needed reports whether there is a CAPI cluster left, or a record of one: the namespace cannot go before them, and the instance may have to do
// something about them. Nothing can be created in the namespace any more, so the end of the last one is final, and is an event.
func (r *Reconciler) needed(ctx context.Context, namespace string) (bool, error) {
	for _, kind := range []struct {
		gvk     schema.GroupVersionKind
		options []client.ListOption
	}{
		{gvk: clusterv1.GroupVersion.WithKind("ClusterList")},
		{gvk: provisioningv1.SchemeGroupVersion.WithKind("ClusterList"), options: []client.ListOption{client.HasLabels{archelonv1.OwnedLabel}}},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.gvk)
		if err := r.APIReader.List(ctx, list, append(kind.options, client.InNamespace(namespace), client.Limit(1))...); err != nil {
			return false, fmt.Errorf("looking for what is left in namespace %s: %w", namespace, err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (r *Reconciler) may(ctx context.Context, namespace string) (bool, error) {
	review, err := r.Reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "patch", Group: rbacv1.GroupName, Resource: "rolebindings", Name: roleBinding,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for this instance's rights: %w", err)
	}
	return review.Status.Allowed, nil
}

func deleting(object client.Object) bool { return !object.GetDeletionTimestamp().IsZero() }

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}
