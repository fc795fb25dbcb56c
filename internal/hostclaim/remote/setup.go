package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// Backoff of a source of which something failed.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 5 * time.Minute
)

// Options of the controller.
type Options struct {
	// Concurrency is the number of sources that are worked on at the same time.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
	// Workload configures the clients of other clusters.
	Workload workload.Options
}

// SetupWithManager adds the controllers to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 {
		return errors.New("the controller of remote claims needs a cache of its own, and a concurrency of at least 1")
	}
	clients, err := workload.NewClients(mgr.GetAPIReader(), options.Workload)
	if err != nil {
		return err
	}
	connections := NewConnections(clients, mgr.GetScheme())
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("adding connections to other clusters: %w", err)
	}
	r.Remotes = connections
	r.Read = Readers{Claims: options.Own, Secrets: options.Own, Clusters: mgr.GetCache(), Live: mgr.GetAPIReader()}
	if err := r.complete(); err != nil {
		return err
	}
	for name, keys := range indexes() {
		if err := options.Own.IndexField(ctx, &metal3v1.HostClaim{}, name, keys); err != nil {
			return fmt.Errorf("indexing HostClaims by %s: %w", name, err)
		}
	}
	awake := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		connections.wakes(func(source types.NamespacedName, after time.Duration) {
			queue.AddAfter(reconcile.Request{NamespacedName: source}, after)
		})
		return nil
	})
	if err := add(mgr, ControllerName, options, r.watches(), r, awake); err != nil {
		return err
	}
	holder := &Holder{Client: r.Client, Read: r.Read}
	return add(mgr, CredentialsControllerName, options, holder.watches(), holder)
}

// add adds a controller that is woken by watches, and by more than that.
func add(
	mgr ctrl.Manager, name string, options Options, watches []watch, r reconcile.Reconciler, more ...source.Source,
) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax)
	b := ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{
		MaxConcurrentReconciles: options.Concurrency,
		RateLimiter:             limiter,
		UsePriorityQueue:        new(false), // See internal/hostclaim/baremetal.
	})
	for _, watch := range watches {
		from := options.Own
		if watch.shared {
			from = mgr.GetCache()
		}
		b = b.WatchesRawSource(source.Kind(from, watch.object, handler.EnqueueRequestsFromMapFunc(watch.requests), watch.admits))
	}
	for _, one := range more {
		b = b.WatchesRawSource(one)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", name, err)
	}
	return nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil || r.Remotes == nil || r.Read.Claims == nil || r.Read.Secrets == nil ||
		r.Read.Clusters == nil || r.Read.Live == nil {
		return errors.New("the controller of remote claims needs a client, readers, other clusters and a recorder of events")
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Metrics.Count(r.Read.Claims)
	return nil
}
