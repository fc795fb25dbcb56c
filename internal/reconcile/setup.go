package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/archelon-io/archelon/internal/fair"
)

// Reconciler is controller-runtime's.
type Reconciler = reconcile.Reconciler

// Watch is what wakes a controller.
type Watch struct {
	// Object is of the kind that is watched.
	Object client.Object
	// Own is whether it comes from the controller's own cache, and not from the manager's.
	Own bool
	// Requests are those for an object.
	Requests handler.MapFunc
	// Admits are the events that matter, nil for all.
	Admits predicate.Predicate
}

// Work says how a controller works.
type Work struct {
	// Name is that of the controller.
	Name string
	// Concurrency is the number of requests that are worked on at the same time, Share that of one namespace; zero leaves
	// some for others.
	Concurrency, Share int
	// Own is the controller's own cache.
	Own cache.Cache
	// RetryMax is how long a request waits at most after failures.
	RetryMax time.Duration
}

// retryBase is how long a request waits after one failure.
const retryBase = 200 * time.Millisecond

// Add adds a controller to the manager that is woken by watches, and by further sources. The namespaces of its requests
// take turns.
func Add(mgr ctrl.Manager, work Work, watches []Watch, r reconcile.Reconciler, more ...source.Source) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(work.Name).WithOptions(controller.Options{
		MaxConcurrentReconciles: work.Concurrency,
		// A queue of our own also does without the priority queue of controller-runtime v0.24.1, which can hang when it is
		// shut down while requests wait: it gives one to a worker that has left, with its locks held.
		NewQueue:    fair.NewQueue(cmp.Or(work.Share, max(1, work.Concurrency-work.Concurrency/4))),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, work.RetryMax),
	})
	for _, watch := range watches {
		from, admits := mgr.GetCache(), watch.Admits
		if watch.Own {
			from = work.Own
		}
		if admits == nil {
			admits = predicate.Funcs{}
		}
		b = b.WatchesRawSource(source.Kind(from, watch.Object, handler.EnqueueRequestsFromMapFunc(watch.Requests), admits))
	}
	for _, one := range more {
		b = b.WatchesRawSource(one)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", work.Name, err)
	}
	return nil
}

// Index is one of a cache.
type Index struct {
	// Object is of the kind that is indexed.
	Object client.Object
	// Name is that of the index.
	Name string
	// Keys are those of an object.
	Keys client.IndexerFunc
}

// AddIndexes adds indexes to a cache.
func AddIndexes(ctx context.Context, to client.FieldIndexer, indexes []Index) error {
	for _, index := range indexes {
		if err := to.IndexField(ctx, index.Object, index.Name, index.Keys); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.Object, index.Name, err)
		}
	}
	return nil
}

// Itself returns the request of an object.
func Itself(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}
