package remote

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Holder holds the Secrets with kubeconfigs as long as sources use them: without its kubeconfig, a source cannot have
// its target deleted. Its requests name Secrets.
type Holder struct {
	// Client writes.
	Client client.Client
	// Read is what it reads from.
	Read Readers
}

// Reconcile implements reconcile.Reconciler.
func (h *Holder) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	before := secretMetadata()
	if err := h.Read.Secrets.Get(ctx, request.NamespacedName, before); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	used, err := h.used(ctx, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	after := before.DeepCopy()
	if !hold(after, used) {
		return ctrl.Result{}, nil
	}
	// What else the cache has left out is in neither version.
	err = controller.WholeFinalizers(ctx, h.Read.Live, secretMetadata(), before, after)
	if err != nil {
		return ctrl.Result{}, reconcile.IgnoreOvertaken(err)
	}
	if err := h.Client.Patch(ctx, after, reconcile.Locked(before), client.FieldOwner(FieldOwner)); err != nil && !reconcile.Overtaken(err) {
		return ctrl.Result{}, fmt.Errorf("holding Secret %s: %w", request.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

// hold has a Secret held or not, and reports whether that changes it. One that is on its way out gets no finalizer any
// more.
func hold(secret *metav1.PartialObjectMetadata, used bool) bool {
	switch {
	case !used:
		return controllerutil.RemoveFinalizer(secret, metal3v1.CredentialsFinalizer)
	case secret.DeletionTimestamp != nil:
		return false
	default:
		return controllerutil.AddFinalizer(secret, metal3v1.CredentialsFinalizer)
	}
}

// used reports whether a source that is held uses a Secret. One that is paused counts.
func (h *Holder) used(ctx context.Context, request ctrl.Request) (bool, error) {
	list := &metal3v1.HostClaimList{}
	key := client.MatchingFields{credentialsIndex: request.String()}
	if err := h.Read.Claims.List(ctx, list, key, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing HostClaims: %w", err)
	}
	for i := range list.Items {
		if held(&list.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

func (h *Holder) watches() []reconcile.Watch {
	return []reconcile.Watch{
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: credentialsRequest, Admits: predicate.ResourceVersionChangedPredicate{}},
		{Object: secretMetadata(), Own: true, Requests: reconcile.Itself, Admits: predicate.ResourceVersionChangedPredicate{}},
	}
}

// secretsIn returns the requests of the Secrets that sources of a namespace use.
func (h *Holder) secretsIn(ctx context.Context, namespace string) []ctrl.Request {
	var requests []ctrl.Request
	hostclaim.Each(ctx, h.Read.Claims, func(claim *metal3v1.HostClaim) {
		requests = append(requests, credentialsRequest(ctx, claim)...)
	}, client.InNamespace(namespace))
	return requests
}

// credentialsRequest names the Secret with the kubeconfig of a source.
func credentialsRequest(_ context.Context, object client.Object) []ctrl.Request {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || !handled(claim) {
		return nil
	}
	credentials, problem := credentialsOf(claim)
	if problem != nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: credentials.Secret}}
}
