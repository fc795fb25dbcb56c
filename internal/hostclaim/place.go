package hostclaim

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/internal/shard"
)

// Place is where the controllers of claims work.
type Place struct {
	// Scope is what the instance was given.
	Scope shard.Scope
	// Permissions are those of an instance that has them in named namespaces. Optional.
	Permissions Permissions
}

// Permissions can be taken from an instance while it runs, and be given again.
type Permissions interface {
	// Withdrawn reports whether they were taken in a namespace. What was held there has been released, and nothing is
	// taken again.
	Withdrawn(ctx context.Context, namespace string) (bool, error)
	// Returned has a function called with each namespace in which there are some again.
	Returned(tell func(namespace string))
}

// Has reports whether anything is to be done in a namespace.
func (p Place) Has(ctx context.Context, namespace string) (bool, error) {
	if !p.Scope.Owns(namespace) {
		return false, nil
	}
	if p.Permissions == nil {
		return true, nil
	}
	withdrawn, err := p.Permissions.Withdrawn(ctx, namespace)
	return err == nil && !withdrawn, err
}

// Add adds a controller to the manager. Elsewhere than in its place it does nothing. The function returns the requests
// of what there is in one namespace.
func (p Place) Add(
	mgr ctrl.Manager, work reconcile.Work, in func(ctx context.Context, namespace string) []ctrl.Request,
	watches []reconcile.Watch, r reconcile.Reconciler, more ...source.Source,
) error {
	return reconcile.Add(mgr, work, watches, placed{p, r}, append(more, p.returns(in))...)
}

// placed keeps a reconciler to its place.
type placed struct {
	place      Place
	reconciler reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (p placed) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if has, err := p.place.Has(ctx, request.Namespace); err != nil || !has {
		return ctrl.Result{}, err
	}
	return p.reconciler.Reconcile(ctx, request)
}

// returns wakes a controller for all that it works on in a namespace whose permissions are there again.
func (p Place) returns(in func(ctx context.Context, namespace string) []ctrl.Request) source.Func {
	return func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		if p.Permissions != nil {
			p.Permissions.Returned(func(namespace string) {
				for _, request := range in(ctx, namespace) {
					queue.Add(request)
				}
			})
		}
		return nil
	}
}

// ClaimsIn returns a function that returns the requests of the claims of caches in a namespace.
func ClaimsIn(caches ...client.Reader) func(context.Context, string) []ctrl.Request {
	return func(ctx context.Context, namespace string) []ctrl.Request {
		var requests []ctrl.Request
		for _, claims := range caches {
			Each(ctx, claims, func(claim *metal3v1.HostClaim) {
				requests = append(requests, reconcile.Itself(ctx, claim)...)
			}, client.InNamespace(namespace))
		}
		return requests
	}
}
