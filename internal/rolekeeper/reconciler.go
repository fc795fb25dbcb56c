// Package rolekeeper keeps the rights of an isolated instance in a namespace that is being deleted until nothing there
// needs them. Kubernetes deletes what is in such a namespace in no order that helps: without its RoleBinding the
// instance may not take its finalizer off CAPI clusters, and the namespace is stuck. A finalizer on the RoleBinding
// holds it, and with it the rights, for RBAC does not care whether a RoleBinding is being deleted. A RoleBinding that
// somebody deletes in a namespace that stays withdraws the rights. It is let go as soon as the clusters there are:
// nobody could take the finalizers off after that.
package rolekeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/shard"
)

// roleBinding is the name of the RoleBinding that gives a namespace to an isolated instance.
const roleBinding = archelonv1.IsolatedRoleBinding

// Reconciler lets RoleBindings go. All exported fields are required.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Reviews tell whether the instance may do it: one that has its rights by a ClusterRoleBinding needs no RoleBinding.
	Reviews authorizationclient.SelfSubjectAccessReviewInterface
	// Bindings is a cache of the metadata of the RoleBindings of this name in all namespaces: one may be withdrawn
	// together with its namespace's place in the scope.
	Bindings client.Reader
	// Self is this instance.
	Self instance.ID
	// Holdings are what the controllers hold that run. There are permissions for no others.
	Holdings []hold.Holding
	// Scope is where the instance works.
	Scope shard.Scope
	// Lost is called when a RoleBinding in the scope is gone, or is not there when the controller starts.
	Lost func()

	// Watcher watches the API server for claims.
	Watcher client.WithWatch

	// released has the UID of the RoleBinding that was let go, by namespace: a cache that is behind still shows it, and
	// without it the API server refuses to say what is left there.
	released sync.Map
	unbound  unbound
	returned listeners
	awaited  awaited
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, bindings cache.Cache) error {
	if r.Client == nil || r.APIReader == nil || r.Reviews == nil || r.Bindings == nil || bindings == nil || r.Self.Name == "" ||
		len(r.Holdings) == 0 || r.Lost == nil || r.Watcher == nil {
		return errors.New("the role keeper needs clients, a reader, access reviews, a cache of RoleBindings, the instance, " +
			"what is held and whom to tell of a loss")
	}
	if err := r.follow(ctx, bindings); err != nil {
		return fmt.Errorf("watching RoleBindings: %w", err)
	}
	itsNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetNamespace()}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Kind(bindings, bindingMetadata(), handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, binding *metav1.PartialObjectMetadata) []reconcile.Request {
				if !deleting(binding) {
					return nil
				}
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: binding.Namespace}}}
			}))).
		WatchesRawSource(r.awaited.source())
	if r.imports() {
		b = b.Watches(&clusterv1.Cluster{}, itsNamespace, builder.WithPredicates(gone())).
			Watches(&provisioningv1.Cluster{}, itsNamespace, builder.WithPredicates(gone()))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", controllerName, err)
	}
	return nil
}

// imports reports whether the instance imports: other kinds than those of the import may be all that there are.
func (r *Reconciler) imports() bool {
	return slices.ContainsFunc(r.Holdings, func(h hold.Holding) bool { return h.Finalizer == hold.Import })
}

// gone admits what is deleted.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reconcile lets the RoleBinding of a namespace go when it is deleted and the instance holds nothing there. In a
// namespace that is being deleted as well, the importer has to let go before; in one that stays it does so itself.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	binding := bindingMetadata()
	err := r.Bindings.Get(ctx, client.ObjectKey{Namespace: req.Name, Name: roleBinding}, binding)
	if apierrors.IsNotFound(err) {
		r.released.Delete(req.Name)
	}
	if err != nil || !deleting(binding) || !hold.Role.On(binding) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if released, ok := r.released.Load(req.Name); ok && released == binding.UID {
		return ctrl.Result{}, nil
	}
	if may, err := r.may(ctx, req.Name); err != nil || !may {
		return ctrl.Result{}, err
	}
	if after, err := r.kept(ctx, req.Name); err != nil || after != nil {
		return ptr.Deref(after, ctrl.Result{}), err
	}
	if err := hold.Release(ctx, r.Client, binding, func() { hold.Role.Remove(binding) }); err != nil {
		return ctrl.Result{}, err
	}
	r.released.Store(req.Name, binding.UID)
	ctrl.LoggerFrom(ctx).Info("Let go of the rights in a namespace", "namespace", req.Name)
	return ctrl.Result{}, nil
}

// kept returns nil if the rights in a namespace may go, or else when to ask again: zero if an event tells.
func (r *Reconciler) kept(ctx context.Context, name string) (*ctrl.Result, error) {
	ending, err := r.ending(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("getting namespace %s: %w", name, err)
	}
	if !ending {
		found, err := hold.Leave(ctx, r.APIReader, r.Client, r.Holdings, name, r.Self.String())
		if err != nil {
			return nil, err
		}
		if found == 0 {
			r.unbound.add(name)
			return nil, nil //nolint:nilnil // there is nothing to wait for
		}
		return &ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	if !r.Scope.Owns(name) {
		return nil, nil //nolint:nilnil // there is nothing to wait for
	}
	if needed, err := r.needed(ctx, name); err != nil || needed {
		return &ctrl.Result{}, err
	}
	if claims, err := r.claims(ctx, name); err != nil || claims {
		return &ctrl.Result{}, err
	}
	return nil, nil //nolint:nilnil // there is nothing to wait for
}

// needed reports whether there is a CAPI cluster left, or a record of one: the namespace cannot go before them, and the
// instance may have to do something about them. Nothing can be created in the namespace any more, so the end of the
// last one is final, and is an event.
func (r *Reconciler) needed(ctx context.Context, namespace string) (bool, error) {
	if !r.imports() {
		return false, nil
	}
	// The importer goes by the cache: as long as a cluster is in it, a request for it may follow.
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &provisioningv1.ClusterList{}} {
		if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil || meta.LenList(list) > 0 {
			return true, err
		}
	}
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
	return allowed(ctx, r.Reviews, roleBindings("patch", namespace))
}

// MayWatch reports whether this instance may watch the RoleBindings that give namespaces to isolated instances. One
// that has its rights by a ClusterRoleBinding needs none and may not.
func MayWatch(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface) (bool, error) {
	return allowed(ctx, reviews, roleBindings("watch", metav1.NamespaceAll))
}

func roleBindings(verb, namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: rbacv1.GroupName, Resource: "rolebindings", Name: roleBinding}
}

func allowed(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, what authorizationv1.ResourceAttributes) (bool, error) {
	review, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for this instance's rights: %w", err)
	}
	return review.Status.Allowed, nil
}

func bindingMetadata() *metav1.PartialObjectMetadata {
	return metadata(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
}

func deleting(object client.Object) bool { return !object.GetDeletionTimestamp().IsZero() }

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}
