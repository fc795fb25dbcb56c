package translation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
)

// Backoff of a credential that could not be read, or written for.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

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
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				retryBase, retryMax,
			),
			// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait.
			UsePriorityQueue: new(false),
		}).
		WatchesRawSource(source.Kind[client.Object](
			options.Own, secretMetadata(), handler.EnqueueRequestsFromMapFunc(r.requestOfSecret),
		)).
		WatchesRawSource(source.Kind[client.Object](
			mgr.GetCache(), &infrav1.OCIClusterIdentity{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfIdentity),
		)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// requestOfSecret names what a Secret belongs to, be it a credential or that of an identity.
func (r *Reconciler) requestOfSecret(_ context.Context, secret client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: r.keyOf(secret.GetName())}}
}

// requestsOfIdentity names what an identity belongs to, and what its Secret does: that goes when nobody names it.
func (r *Reconciler) requestsOfIdentity(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if object.GetNamespace() == r.Policy.Namespace {
		requests = append(requests, reconcile.Request{NamespacedName: r.keyOf(object.GetName())})
	}
	if identity, ok := object.(*infrav1.OCIClusterIdentity); ok {
		if name, ok := r.secretOf(identity); ok {
			requests = append(requests, reconcile.Request{NamespacedName: r.keyOf(name)})
		}
	}
	return requests
}
