package translation

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// retryMax is how long a credential waits at most that could not be read, or written for.
const retryMax = 2 * time.Minute

// Options of the controller.
type Options struct {
	// Concurrency is the number of credentials that are worked on at the same time.
	Concurrency int
	// Own is a cache of the controller's own, of the metadata of Secrets.
	Own cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 {
		return errors.New("the translation of cloud credentials needs a cache of its own, and a concurrency of at least 1")
	}
	if err := r.complete(); err != nil {
		return err
	}
	// All requests are of one namespace, which has all workers.
	work := reconcile.Work{
		Name: ControllerName, Concurrency: options.Concurrency, Share: options.Concurrency, Own: options.Own, RetryMax: retryMax,
	}
	return reconcile.Add(mgr, work, []reconcile.Watch{
		{Object: identity.SecretMetadata(), Own: true, Requests: r.requestOfSecret},
		{Object: &identityv1.OCIClusterIdentity{}, Requests: r.requestsOfIdentity},
	}, r)
}

// requestOfSecret names what a Secret belongs to, be it a credential or that of an identity.
func (r *Reconciler) requestOfSecret(_ context.Context, secret client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: r.keyOf(secret.GetName())}}
}

// requestsOfIdentity names what an identity belongs to, and what its Secret does: that goes when nobody names it.
func (r *Reconciler) requestsOfIdentity(_ context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	if object.GetNamespace() == r.Policy.Namespace {
		requests = append(requests, ctrl.Request{NamespacedName: r.keyOf(object.GetName())})
	}
	if named, ok := object.(*identityv1.OCIClusterIdentity); ok {
		if name, ok := r.secretOf(named); ok {
			requests = append(requests, ctrl.Request{NamespacedName: r.keyOf(name)})
		}
	}
	return requests
}
