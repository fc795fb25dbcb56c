package importer

import (
	"context"
	"errors"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/fair"
	"github.com/archelon-io/archelon/internal/rancher"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "rancher-import"

// defaultJobs is how many workload clusters are worked on at once. A job costs a goroutine and waits most of the time.
const defaultJobs = 100

// Options of the controller.
type Options struct {
	// Concurrency is the number of clusters that are reconciled at the same time.
	Concurrency int
	// TokenSecrets is a cache of the metadata of Rancher's registration token Secrets. Its own, because the manager's
	// holds kubeconfig Secrets and a cache has one selector for a kind.
	TokenSecrets cache.Cache
	// Assigned is a cache of the metadata of Namespaces with label archelon.io/managed-by. Its own, because the manager's
	// selects those with the import label.
	Assigned cache.Cache
	// DisplayNames is a cache of all v3 Clusters as rancher.NamedCluster. The manager's holds those alone that belong
	// to its scope.
	DisplayNames cache.Cache
	// Rancher is the shared cache of Rancher's cluster.
	Rancher cache.Cache
	// Begin is closed when the controller may begin. Optional: it begins at once.
	Begin <-chan struct{}
	// AgentChanges, if set, is given what to call when AgentGone says something else of a CAPI Cluster.
	AgentChanges func(wake func(types.NamespacedName))
	// InstanceGone, if set, is given what to call when another instance does not run any more, with its name,
	// and returns what ends that.
	InstanceGone func(wake func(instance string)) (stop func())
	// Claimed, if set, reports whether an instance that runs imports what is in a namespace with these labels.
	Claimed func(namespace string, labels map[string]string) bool
	// Unselected, if set, is given what counts namespaces with CAPI Clusters that no instance selects, and nothing when
	// this replica does not lead any more.
	Unselected func(count func() int)
}

// What is needed in the namespaces of an instance only says namespace=scope. Kubeconfigs are in these namespaces. What
// is needed in Rancher's cluster is in internal/rancher.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=controller-leader-election-rancher-turtles,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io,verbs=list;watch

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := r.complete(options); err != nil {
		return err
	}
	if err := r.addIndexes(ctx, mgr.GetFieldIndexer(), options.Rancher, options.DisplayNames); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(agentControllerName).
		WatchesRawSource(source.Func(r.jobs.serve)).WithOptions(r.jobs.options()).Complete(r.jobs)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", agentControllerName, err)
	}
	count := counting{
		inventory: r.Metrics.present, unselected: options.Unselected,
		view: view{reader: r.Client, claim: r.Claim, claimed: options.Claimed},
	}
	if err := mgr.Add(count); err != nil {
		return fmt.Errorf("adding the count of clusters: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(clusterChanged(r.told))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfNamesake), builder.WithPredicates(gone())).
		WatchesMetadata(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.clustersIn), builder.WithPredicates(namespaceChanged(r.Claim))).
		WatchesMetadata(secretMetadata(), handler.EnqueueRequestsFromMapFunc(r.clusterOfKubeconfig)).
		WatchesRawSource(source.Kind(options.TokenSecrets, secretMetadata(), handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, secret *metav1.PartialObjectMetadata) []reconcile.Request {
				return r.clusterOfBackingNamespace(ctx, secret)
			}))).
		WatchesRawSource(source.Kind(options.Assigned, namespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, namespace client.Object) []reconcile.Request {
				return r.clustersIn(ctx, namespace)
			}),
			labelChanged(archelonv1.ManagedByLabel))).
		WatchesRawSource(source.Kind(options.DisplayNames, &rancher.NamedCluster{},
			handler.TypedEnqueueRequestsFromMapFunc(r.clustersOfName), nameChanged())).
		WatchesRawSource(source.Channel(r.jobs.ended, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			NewQueue:                fair.NewQueue(options.Concurrency),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
		})
	if r.Principals != nil {
		b = b.WatchesRawSource(r.principalChanged())
	}
	if options.InstanceGone != nil {
		b = b.WatchesRawSource(r.instanceGone(options.InstanceGone))
	}
	if options.AgentChanges != nil {
		b = b.WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			options.AgentChanges(func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
			return nil
		}))
	}
	b = r.watchPlaces(r.watchRancher(b, options.Rancher), options.Rancher)
	if err := b.Complete(beginning(options.Begin, r)); err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// watchRancher has what is in Rancher's cluster wake CAPI clusters.
func (r *Reconciler) watchRancher(b *builder.Builder, from cache.Cache) *builder.Builder {
	b = b.WatchesRawSource(source.Kind(from, client.Object(rancher.NewRegistrationToken()),
		handler.EnqueueRequestsFromMapFunc(r.clusterOfBackingNamespace), tokenChanged())).
		WatchesRawSource(source.Kind(from, client.Object(&managementv3.Setting{}),
			handler.EnqueueRequestsFromMapFunc(r.clustersNotImported), settingMatters())).
		WatchesRawSource(source.Kind(from, client.Object(&managementv3.Cluster{}),
			handler.EnqueueRequestsFromMapFunc(r.clustersWaitingFor), going()))
	for _, strategy := range r.strategies() {
		b = b.WatchesRawSource(source.Kind(from, strategy.NewObject(),
			handler.EnqueueRequestsFromMapFunc(r.clustersOfRecord(strategy)), recordChanged(r.writes)))
	}
	return b
}

// addIndexes adds the indexes of the caches that the controller looks things up in.
func (r *Reconciler) addIndexes(ctx context.Context, indexer, rancherIndexer client.FieldIndexer, displayNames Indexed) error {
	for _, strategy := range r.strategies() {
		if err := rancherIndexer.IndexField(ctx, strategy.NewObject(), ownerIndex, ownerKeys); err != nil {
			return fmt.Errorf("indexing %s Rancher clusters by owner: %w", strategy.Kind(), err)
		}
	}
	var err error
	if r.DisplayNames, err = rancher.NewDisplayNames(ctx, displayNames, displayNames); err != nil {
		return err
	}
	for name, index := range clusterIndexes(r.Rules) {
		if err := indexer.IndexField(ctx, &clusterv1.Cluster{}, name, index); err != nil {
			return fmt.Errorf("indexing CAPI clusters for %s: %w", name, err)
		}
	}
	return nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete(options Options) error {
	for name, missing := range map[string]bool{
		"Client": r.Client == nil, "APIReader": r.APIReader == nil, "Rancher": (r.Rancher == nil) != (r.RancherReader == nil) || options.Rancher == nil,
		"Recorder": r.Recorder == nil, "Active": r.Active == nil,
		"Settings": r.Settings == nil, "Tokens": r.Tokens == nil, "Downloader": r.Downloader == nil, "Workloads": r.Workloads == nil,
		"Metrics": r.Metrics == nil, "Self": r.Self.Name == "", "TokenSecrets": options.TokenSecrets == nil,
		"Assigned": options.Assigned == nil, "DisplayNames": options.DisplayNames == nil,
	} {
		if missing {
			return fmt.Errorf("the import controller needs %s", name)
		}
	}
	if options.Concurrency < 1 {
		return errors.New("the import controller needs a concurrency of at least 1")
	}
	if r.Jobs == 0 {
		r.Jobs = defaultJobs
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.open = r.openSite
	r.tokenSecrets, r.assigned = options.TokenSecrets, options.Assigned
	r.jobs = newJobs(r.Jobs, r.Clock)
	r.memory = newMemory()
	r.registrations.budget = r.jobs.patience.budget
	return nil
}
