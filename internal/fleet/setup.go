package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/providers/capi"
)

// Backoff of a condition that could not be written.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// Options of the fleet.
type Options struct {
	// Claim is what this instance works on.
	Claim instance.Claim
	// Registry is where metrics are registered.
	Registry prometheus.Registerer
	// Concurrency is how many conditions are written at the same time.
	Concurrency int
	// ClusterOptions limit what is received from each cluster.
	ClusterOptions []cluster.Option
	// AllowLocalProxies accepts kubeconfigs whose proxy-url leads to a local address.
	AllowLocalProxies bool
	// Timing bounds what is waited for; the zero value holds the defaults.
	Timing capi.Timing
}

// SetupWithManager adds the fleet to a manager. What is returned takes controllers that run across all clusters.
func SetupWithManager(mgr ctrl.Manager, options Options) (mcmanager.Manager, error) {
	if options.Registry == nil || options.Concurrency < 1 {
		return nil, errors.New("the fleet needs a registry of metrics, and a concurrency of at least 1")
	}
	r := &Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Claim: options.Claim,
		Recorder: mgr.GetEventRecorder(ControllerName), Clock: clock.RealClock{},
	}
	// An import alone needs no lasting connection; what is imported is worth one.
	provider, err := capi.New(mgr, capi.Options{
		Name: ControllerName + "-clusters", ClusterOptions: options.ClusterOptions, Timing: options.Timing, Metrics: options.Registry, Changed: r.wake,
		AllowLocalProxies: options.AllowLocalProxies, KubeconfigAnnotations: true,
		Select: func(cluster *clusterv1.Cluster) bool { return options.Claim.Covers(cluster) && hold.Import.On(cluster) },
	})
	if err != nil {
		return nil, fmt.Errorf("building the provider of workload clusters: %w", err)
	}
	r.Fleet = provider
	fleet, err := mcmanager.WithMultiCluster(mgr, provider, capi.EndSources())
	if err != nil {
		return nil, fmt.Errorf("building the manager of the fleet: %w", err)
	}
	// The manager is started by others, so the provider is not started by that of the fleet.
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return provider.Start(ctx, fleet) }))
	if err != nil {
		return nil, fmt.Errorf("adding the provider of workload clusters: %w", err)
	}
	return fleet, r.setUp(mgr, options.Concurrency)
}

func (r *Reconciler) setUp(mgr ctrl.Manager, concurrency int) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(conditionChanged())).
		WatchesRawSource(source.Func(
			func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				r.queue.Store(&queue{q})
				return nil
			})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
			// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait.
			UsePriorityQueue: new(false),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// conditionChanged admits Clusters that come, that are resumed, and whose condition somebody changed. What the provider
// has to say comes from itself.
func conditionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || before.UID != after.UID ||
			annotations.IsPaused(before, before) != annotations.IsPaused(after, after) ||
			!equality.Semantic.DeepEqual(meta.FindStatusCondition(before.GetConditions(), archelonv1.FleetEngagedCondition),
				meta.FindStatusCondition(after.GetConditions(), archelonv1.FleetEngagedCondition))
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}
