package identity

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
)

// Backoff of an identity that could not be evaluated.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// Options of the controller.
type Options struct {
	// Concurrency is the number of identities that are evaluated at the same time.
	Concurrency int
	// Metadata is a cache of what Scope.Watches has in the controller's own.
	Metadata cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Metadata == nil || options.Concurrency < 1 {
		return errors.New("the identity controller needs a cache of metadata, and a concurrency of at least 1")
	}
	if err := r.complete(); err != nil {
		return err
	}
	for _, index := range indexes() {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("indexing %T: %w", index.object, err)
		}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax)
	b := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).For(&infrav1.OCIClusterIdentity{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter:             limiter,
			// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait: it gives one to a
			// worker that has left, with its locks held.
			UsePriorityQueue: new(false),
		})
	for _, watch := range r.watches() {
		from := mgr.GetCache()
		if watch.metadata {
			from = options.Metadata
		}
		b = b.WatchesRawSource(
			source.Kind(from, watch.object, handler.EnqueueRequestsFromMapFunc(watch.identities), watch.admits),
		)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil {
		return errors.New("the identity controller needs a client and a recorder of events")
	}
	if err := r.Resolver.complete(); err != nil {
		return err
	}
	if r.Notify == nil {
		r.Notify = func(string, types.NamespacedName) {}
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.memory = newMemory()
	if r.Metrics != nil {
		r.Metrics.memory.Store(r.memory)
	}
	return nil
}

// Indexes of the manager's cache.
const (
	identityIndex = "archelon.io/identity"
	secretIndex   = "archelon.io/principal-secret"
)

// index is one of them.
type index struct {
	object client.Object
	name   string
	keys   client.IndexerFunc
}

func indexes() []index {
	return []index{
		{&infrav1.OCICluster{}, identityIndex, identityKeys},
		{&infrav1.OCIManagedCluster{}, identityIndex, identityKeys},
		{&infrav1.OCIClusterIdentity{}, secretIndex, secretKeys},
	}
}

// identityKeys returns the identity that a cluster names.
func identityKeys(object client.Object) []string {
	user, ok := object.(User)
	if !ok || user.IdentityRef() == nil {
		return nil
	}
	return []string{KeyOf(user.IdentityRef(), user.GetNamespace()).String()}
}

// secretKeys returns the Secret that an identity names.
func secretKeys(object client.Object) []string {
	identity, ok := object.(*infrav1.OCIClusterIdentity)
	if !ok {
		return nil
	}
	ref, _ := identity.Spec.Secret()
	return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}
}

// watch is what wakes the controller besides identities themselves.
type watch struct {
	object client.Object
	// metadata is whether the object comes from the cache of metadata.
	metadata bool
	// identities returns the identities that an object concerns.
	identities handler.MapFunc
	admits     predicate.Predicate
}

func (r *Reconciler) watches() []watch {
	watches := []watch{
		{&infrav1.OCICluster{}, false, r.identityOfCluster, refChanged()},
		{&infrav1.OCIManagedCluster{}, false, r.identityOfCluster, refChanged()},
		{metadataOf("Namespace"), true, r.identitiesOfNamespace, predicate.LabelChangedPredicate{}},
	}
	if len(r.Resolver.Scope.Policy.SecretNamespaces) > 0 {
		watches = append(
			watches,
			watch{metadataOf("Secret"), true, r.identitiesOfSecret, predicate.ResourceVersionChangedPredicate{}},
		)
	}
	return watches
}
