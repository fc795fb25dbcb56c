package machines

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/reconcile"
)

// retryMax is how long a Machine waits at most of which something failed.
const retryMax = 2 * time.Minute

// Options of the controller.
type Options struct {
	// Concurrency is the number of Machines that are worked on at the same time.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 || r.Client == nil || r.Recorder == nil {
		return errors.New(
			"the controller of Metal3Machines needs a client, a recorder of events, a cache of its own, and a concurrency " +
				"of at least 1",
		)
	}
	r.Read = Readers{Own: options.Own, Clusters: mgr.GetCache(), Live: mgr.GetAPIReader()}
	if err := reconcile.AddIndexes(ctx, options.Own, indexes()); err != nil {
		return err
	}
	work := reconcile.Work{
		Name: ControllerName, Concurrency: options.Concurrency, Own: options.Own, RetryMax: retryMax,
	}
	in := func(ctx context.Context, namespace string) []ctrl.Request { return r.in(ctx, namespace) }
	return r.Place.Add(mgr, work, in, r.watches(), r)
}
