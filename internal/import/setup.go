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
	// AgentChanges, if set, is given what to call when AgentGone says something else of a CAPI Cluster.
	AgentChanges func(wake func(types.NamespacedName))
	// InstanceGone, if set, is given what to call when another instance does not run any more, with its name.
	InstanceGone func(wake func(instance string))
}

// What is needed in the namespaces of an instance only says namespace=scope. Kubeconfigs are in these namespaces. Registration tokens are in namespaces
// whose names Rancher makes up, in Secrets whose names are fixed: that of the token, which an agent is installed with, and that of the one which it gets
// afterwards. A list or watch is within such names if a field selector limits it to one of them. To create a Rancher cluster is a matter of the strategies.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=crt-token-default-token;crt-token-system,verbs=get;list;watch
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusterregistrationtokens,verbs=list;watch
// +kubebuilder:rbac:groups=management.cattle.io,resources=settings,verbs=list;watch
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=get;list;watch;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=controller-leader-election-rancher-turtles,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io;clusters.management.cattle.io;clusters.provisioning.cattle.io;clusterregistrationtokens.management.cattle.io;settings.management.cattle.io,verbs=list;watch

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := r.complete(options); err != nil {
		return err
	}
	if err := r.addIndexes(ctx, mgr.GetFieldIndexer(), options.DisplayNames); err != nil {
		return err
	}
	if err := mgr.Add(r.jobs); err != nil {
		return fmt.Errorf("adding the jobs: %w", err)
	}
	if err := mgr.Add(counting{inventory: r.Metrics.present, view: view{reader: r.Client, claim: r.Claim, kind: r.Active.Kind()}}); err != nil {
		return fmt.Errorf("adding the count of clusters: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(clusterChanged(r.told))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfNamesake), builder.WithPredicates(gone())).
		WatchesMetadata(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.clustersIn), builder.WithPredicates(labelChanged(archelonv1.ImportLabel))).
		WatchesMetadata(secretMetadata(), handler.EnqueueRequestsFromMapFunc(clusterOfKubeconfig)).
		Watches(rancher.NewRegistrationToken(), handler.EnqueueRequestsFromMapFunc(r.clusterOfBackingNamespace), builder.WithPredicates(tokenChanged())).
		Watches(&managementv3.Setting{}, handler.EnqueueRequestsFromMapFunc(r.clustersNotImported), builder.WithPredicates(settingMatters())).
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
		WatchesRawSource(source.Channel(r.turns.come, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			NewQueue:                newQueue,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
		})
	if r.Principals != nil {
		b = b.WatchesRawSource(r.principalChanged())
	}
	if options.InstanceGone != nil {
		b = b.WatchesRawSource(r.instanceGone(options.InstanceGone))
	}
	b = b.Watches(&managementv3.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clustersWaitingFor), builder.WithPredicates(going()))
	if options.AgentChanges != nil {
		b = b.WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			options.AgentChanges(func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
			return nil
		}))
	}
	for _, strategy := range r.strategies() {
		b = b.Watches(strategy.NewObject(), handler.EnqueueRequestsFromMapFunc(r.clustersOfRecord(strategy)), builder.WithPredicates(recordChanged(r.writes)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// addIndexes adds the indexes of the caches that the controller looks things up in.
func (r *Reconciler) addIndexes(ctx context.Context, indexer client.FieldIndexer, displayNames Indexed) error {
	for _, strategy := range r.strategies() {
		if err := indexer.IndexField(ctx, strategy.NewObject(), ownerIndex, ownerKeys); err != nil {
			return fmt.Errorf("indexing %s Rancher clusters by owner: %w", strategy.Kind(), err)
		}
	}
	var err error
	if r.DisplayNames, err = rancher.NewDisplayNames(ctx, displayNames, displayNames); err != nil {
		return err
	}
	for name, index := range clusterIndexes(r.Active) {
		if err := indexer.IndexField(ctx, &clusterv1.Cluster{}, name, index); err != nil {
			return fmt.Errorf("indexing CAPI clusters for %s: %w", name, err)
		}
	}
	return nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete(options Options) error {
	for name, missing := range map[string]bool{
		"Client": r.Client == nil, "APIReader": r.APIReader == nil, "Recorder": r.Recorder == nil, "Active": r.Active == nil,
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
	r.memory = newMemory(r.Switches)
	return nil
}
