package identity

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// refChanged admits clusters that come, go, or name another identity or another place at OCI. CAPOCI updates the status
// of a cluster often.
func refChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(User)
		after, ok2 := e.ObjectNew.(User)
		return !ok || !ok2 || before.GetUID() != after.GetUID() || !equality.Semantic.DeepEqual(
			before.ClusterSpec(), after.ClusterSpec(),
		)
	}}
}

// identityOfCluster returns the identity that a cluster names. Of a change, both the identity before and the one after
// are woken. A cluster that names none has its verdict by that alone.
func (r *Reconciler) identityOfCluster(_ context.Context, object client.Object) []ctrl.Request {
	user, ok := object.(User)
	if !ok {
		return nil
	}
	if user.IdentityRef() == nil {
		r.Notify(kindOf(user), client.ObjectKeyFromObject(user))
		return nil
	}
	return []ctrl.Request{{NamespacedName: oci.KeyOf(user.IdentityRef(), user.GetNamespace())}}
}

// kindOf names the kind of a cluster. What comes from a cache does not say it itself.
func kindOf(user User) string {
	if _, managed := user.(*infrav1.OCIManagedCluster); managed {
		return infrav1.OCIManagedClusterKind
	}
	return infrav1.OCIClusterKind
}

// identitiesOfNamespace returns the identities for whose clusters the labels of a Namespace matter.
func (r *Reconciler) identitiesOfNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
	plain, managed := &infrav1.OCIClusterList{}, &infrav1.OCIManagedClusterList{}
	for _, list := range []client.ObjectList{plain, managed} {
		if err := r.Resolver.Cached.Objects.List(ctx, list, client.InNamespace(namespace.GetName())); err != nil {
			// A read from the cache fails only when the cache stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing clusters of a namespace failed")
			return nil
		}
	}
	named := map[types.NamespacedName]bool{}
	for i := range plain.Items {
		note(named, &plain.Items[i])
	}
	for i := range managed.Items {
		note(named, &managed.Items[i])
	}
	var requests []ctrl.Request
	for key := range named {
		if !r.Resolver.Scope.readable(key.Namespace) {
			continue
		}
		if identity, err := r.Resolver.readers().Identity(ctx, key); err == nil && oci.Selects(identity) {
			requests = append(requests, ctrl.Request{NamespacedName: key})
		}
	}
	return requests
}

func note(named map[types.NamespacedName]bool, user User) {
	if ref := user.IdentityRef(); ref != nil {
		named[oci.KeyOf(ref, user.GetNamespace())] = true
	}
}

// identitiesOfSecret returns the identities that name a Secret.
func (r *Reconciler) identitiesOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	list := &identityv1.OCIClusterIdentityList{}
	named := client.MatchingFields{secretIndex: client.ObjectKeyFromObject(secret).String()}
	if err := r.Resolver.Cached.Objects.List(ctx, list, named); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing identities of a Secret failed")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
