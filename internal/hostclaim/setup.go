package hostclaim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/fair"
)

// Watch is what wakes the controller of a kind.
type Watch struct {
	// Object is of the kind that is watched.
	Object client.Object
	// Own is whether it comes from the controller's own cache.
	Own bool
	// Requests are those for an object.
	Requests handler.MapFunc
	// Admits are the events that matter.
	Admits predicate.Predicate
}

// Work says how a controller works.
type Work struct {
	// Name is that of the controller.
	Name string
	// Concurrency is the number of claims that are worked on at the same time, Share that of one namespace; zero leaves
	// some for others.
	Concurrency, Share int
	// Own is the controller's own cache.
	Own cache.Cache
	// RetryMax is how long a claim waits at most of which something failed.
	RetryMax time.Duration
	// Place is where it works, In returns the requests of what there is in one namespace.
	Place Place
	In    func(ctx context.Context, namespace string) []reconcile.Request
}

// retryBase is how long a claim waits of which something has failed once.
const retryBase = 200 * time.Millisecond

// AddController adds a controller that is woken by watches, and by more than that. Elsewhere than in its place it does
// nothing.
func AddController(mgr ctrl.Manager, work Work, watches []Watch, r reconcile.Reconciler, more ...source.Source) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(work.Name).WithOptions(controller.Options{
		MaxConcurrentReconciles: work.Concurrency,
		NewQueue:                fair.NewQueue(cmp.Or(work.Share, max(1, work.Concurrency-work.Concurrency/4))),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, work.RetryMax),
	})
	for _, watch := range watches {
		from := mgr.GetCache()
		if watch.Own {
			from = work.Own
		}
		b = b.WatchesRawSource(source.Kind(from, watch.Object, handler.EnqueueRequestsFromMapFunc(watch.Requests), watch.Admits))
	}
	for _, one := range append(more, work.Place.returns(work.In)) {
		b = b.WatchesRawSource(one)
	}
	if err := b.Complete(placed{work.Place, r}); err != nil {
		return fmt.Errorf("building controller %s: %w", work.Name, err)
	}
	return nil
}

// Index is one of a cache.
type Index struct {
	Object client.Object
	Name   string
	Keys   client.IndexerFunc
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

// SecretKeys are the Secrets that a claim names, for an index.
func SecretKeys(claim *metal3v1.HostClaim) []string {
	var keys []string
	for _, ref := range Sources(claim) {
		if key := claim.Namespace + "/" + ref.Name; MayRead(claim, ref) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ClusterKeys is the Cluster of a claim, for an index.
func ClusterKeys(claim client.Object) []string {
	if name := claim.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{claim.GetNamespace() + "/" + name}
	}
	return nil
}

// Itself returns the request of an object.
func Itself(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// Each calls a function for claims of a cache. They must not be changed.
func Each(ctx context.Context, claims client.Reader, call func(*metal3v1.HostClaim), options ...client.ListOption) {
	list := &metal3v1.HostClaimList{}
	if err := claims.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		// A read from a cache fails only when the cache stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing HostClaims failed")
		return
	}
	for i := range list.Items {
		call(&list.Items[i])
	}
}

// ClaimsBy returns the requests of the claims of caches that have a key in an index.
func ClaimsBy(ctx context.Context, caches []client.Reader, index, key string) []reconcile.Request {
	var requests []reconcile.Request
	for _, claims := range caches {
		Each(ctx, claims, func(claim *metal3v1.HostClaim) {
			requests = append(requests, Itself(ctx, claim)...)
		}, client.MatchingFields{index: key})
	}
	return requests
}

// Going returns the requests of the claims of caches that are being deleted in a namespace.
func Going(ctx context.Context, caches []client.Reader, namespace string) []reconcile.Request {
	var requests []reconcile.Request
	for _, claims := range caches {
		Each(ctx, claims, func(claim *metal3v1.HostClaim) {
			if claim.DeletionTimestamp != nil {
				requests = append(requests, Itself(ctx, claim)...)
			}
		}, client.InNamespace(namespace))
	}
	return requests
}
