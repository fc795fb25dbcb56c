package baremetal

import (
	"context"
	"errors"
	"fmt"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Backoff of a claim of which something failed.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// Options of the controller.
type Options struct {
	// Concurrency is the number of claims that are worked on at the same time.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 {
		return errors.New("the controller of claims needs a cache of its own, and a concurrency of at least 1")
	}
	shared := mgr.GetCache()
	r.Read = Readers{
		Claims: []client.Reader{shared, options.Own}, Objects: shared, Metadata: options.Own, Live: mgr.GetAPIReader(),
	}
	if err := r.complete(); err != nil {
		return err
	}
	if err := addIndexes(ctx, shared, append(hostIndexes(), claimIndexes()...)); err != nil {
		return err
	}
	if err := addIndexes(ctx, options.Own, claimIndexes()); err != nil {
		return err
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax)
	b := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).WithOptions(controller.Options{
		MaxConcurrentReconciles: options.Concurrency,
		RateLimiter:             limiter,
		// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait: it gives one to a worker
		// that has left, with its locks held.
		UsePriorityQueue: new(false),
	})
	for _, watch := range r.watches() {
		from := shared
		if watch.own {
			from = options.Own
		}
		b = b.WatchesRawSource(
			source.Kind(from, watch.object, handler.EnqueueRequestsFromMapFunc(watch.claims), watch.admits),
		)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return policyReader{policies: shared, recorder: r.Recorder, scope: r.Scope}.add(mgr)
}

func addIndexes(ctx context.Context, to client.FieldIndexer, indexes []index) error {
	for _, index := range indexes {
		if err := to.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.object, index.name, err)
		}
	}
	return nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil || len(r.Read.Claims) == 0 || r.Read.Objects == nil || r.Read.Metadata == nil ||
		r.Read.Live == nil {
		return errors.New("the controller of claims needs a client, readers, and a recorder of events")
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Metrics.Count(r.Read.Claims...)
	return nil
}

// watch is what wakes the controller.
type watch struct {
	object client.Object
	// own is whether the object comes from the controller's own cache.
	own bool
	// claims returns the claims that an object concerns.
	claims handler.MapFunc
	admits predicate.Predicate
}

func (r *Reconciler) watches() []watch {
	changed := predicate.ResourceVersionChangedPredicate{}
	return []watch{
		{&metal3v1.HostClaim{}, false, claimItself, changed},
		{&metal3v1.HostClaim{}, true, claimItself, changed},
		{&metal3v1.HostClaim{}, false, r.claimsOfReserved, gaveUp()},
		{&metal3v1.HostClaim{}, true, r.claimsOfReserved, gaveUp()},
		{&bmov1.BareMetalHost{}, false, r.claimsOfHost, changed},
		{&metal3v1.HostDeployPolicy{}, false, r.waitingClaims, predicate.GenerationChangedPredicate{}},
		{&clusterv1.Cluster{}, false, r.claimsOfCluster, pausedChanged()},
		{namespaceMetadata(), true, r.claimsOfNamespace, predicate.LabelChangedPredicate{}},
		{secretMetadata(), true, r.claimsOfSecret, changed},
		{hardwareMetadata(), true, r.claimsOfHardware, created()},
	}
}

// created admits what comes and goes.
func created() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}
