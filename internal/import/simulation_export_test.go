package importer

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/test/simulation"
)

// SyncPatch is syncPatch.
var SyncPatch = syncPatch

// What the simulation needs of the Reconciler: it runs as it is, beside workload clusters that are simulated.

// Site is a workload cluster.
type Site = site

// Downloader gets manifests.
type Downloader = downloader

// Indexes of Rancher clusters in the cache.
const OwnerIndex = ownerIndex

// RecordOf returns an empty record of a kind, which must not be changed.
func RecordOf(strategy Strategy) client.Object { return someRecords[strategy.Kind()] }

// OwnerKeys are the values of OwnerIndex.
func OwnerKeys(object client.Object) []string { return ownerKeys(object) }

// ClusterIndexes are those of CAPI clusters.
func ClusterIndexes(active Strategy) map[string]client.IndexerFunc {
	return clusterIndexes(Rules{Active: active})
}

// Shared are parts of processes that know nothing of any.
type Shared struct {
	metrics   *Metrics
	workloads *workload.Clients
}

// NewShared returns what processes can share.
func NewShared() (*Shared, error) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	workloads, err := workload.NewClients(nobody{}, workload.Options{})
	return &Shared{metrics: metrics, workloads: workloads}, err
}

type nobody struct{ client.Reader }

// Simulated is what a simulated process is made of.
type Simulated struct {
	Rules
	// Client reads from the cache, Live from the API server, Names from the cache of display names.
	Client client.Client
	Live   client.Reader
	Names  interface {
		client.Reader
		client.FieldIndexer
	}
	Clock      clock.PassiveClock
	Open       func(ctx context.Context, cluster types.NamespacedName) (Site, error)
	Downloader Downloader
	Runs       func(instance string) bool
}

// simulatedClusters are more than any simulated process works on.
const simulatedClusters = 16

// Start returns a Reconciler that remembers nothing, and whose jobs run until the context ends.
func (s Simulated) Start(ctx context.Context, shared *Shared) (*Reconciler, error) {
	settings, err := rancher.NewSettings(s.Client)
	if err != nil {
		return nil, err
	}
	tokens, err := rancher.NewTokens(s.Client, s.Live)
	if err != nil {
		return nil, err
	}
	names, err := rancher.NewDisplayNames(ctx, s.Names, s.Names)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Rules: s.Rules, Client: s.Client, APIReader: s.Live, Recorder: simulation.Silent{}, Settings: settings, Tokens: tokens,
		DisplayNames: names, Downloader: s.Downloader, Workloads: shared.workloads, Metrics: shared.metrics, Runs: s.Runs,
		Clock: s.Clock, open: opened(s.Open), tokenSecrets: s.Client, assigned: s.Client,
		memory: newMemory(), jobs: newJobs(simulatedClusters, s.Clock),
	}
	return r, r.jobs.serve(ctx, beside{run: func(request reconcile.Request) { _, _ = r.jobs.Reconcile(ctx, request) }})
}

// opened opens workload clusters by the CAPI cluster alone.
func opened(
	open func(context.Context, types.NamespacedName) (Site, error),
) func(context.Context, types.NamespacedName, kubeconfig.Source) (site, error) {
	return func(ctx context.Context, cluster types.NamespacedName, _ kubeconfig.Source) (site, error) {
		return open(ctx, cluster)
	}
}

// Planner returns what plans for such a process.
func (s Simulated) Planner(ctx context.Context, shared *Shared) (*Planner, error) {
	p, err := newPlanner(ctx, PlannerOptions{
		Rules: s.Rules, Client: s.Client, APIReader: s.Live, Indexes: s.Names, Runs: s.Runs, Begin: func(string) {},
	}, shared.workloads, shared.metrics)
	if err != nil {
		return nil, err
	}
	p.r.Clock = s.Clock
	return p, nil
}

// Untold returns the condition of a CAPI cluster that is told a moment later, nil if there is none.
func (r *Reconciler) Untold(cluster types.UID) *metav1.Condition { return r.steps.of(cluster) }

// beside has requests worked on as soon as they are added.
type beside struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	run func(reconcile.Request)
}

// Add implements workqueue.TypedInterface.
func (b beside) Add(request reconcile.Request) { go b.run(request) }

// What is watched is named by empty objects. They are large, and all processes have the same.
var (
	someCluster   = &clusterv1.Cluster{}
	someSetting   = &managementv3.Setting{}
	someSecret    = secretMetadata()
	someNamespace = namespaceMetadata()
	someToken     = rancher.NewRegistrationToken()
	someRecords   = map[string]client.Object{"v1": &provisioningv1.Cluster{}, "v3": &managementv3.Cluster{}}
)

// Holding returns which CAPI cluster of a name the process has seen held.
func (r *Reconciler) Holding(cluster types.NamespacedName) types.UID { return r.holdings.uid(cluster) }

// Watching are the watches of SetupWithManager, but for that of display names.
func (r *Reconciler) Watching(s *runtime.Scheme, labelled ...string) []simulation.Watch {
	itself := func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}
	watches := []simulation.Watch{
		simulation.WatchOf(s, someCluster, itself, clusterChanged(r.told)),
		simulation.WatchOf(s, someCluster, r.clusterOfNamesake, gone()),
		simulation.WatchOf(s, someSecret, r.clusterOfKubeconfig, nil),
		simulation.WatchOf(s, someSecret, r.clusterOfBackingNamespace, predicate.NewPredicateFuncs(
			func(object client.Object) bool { return object.GetName() == rancher.DefaultTokenSecretName },
		)),
		simulation.WatchOf(s, someToken, r.clusterOfBackingNamespace, tokenChanged()),
		simulation.WatchOf(s, someSetting, r.clustersNotImported, settingMatters()),
		simulation.WatchOf(s, someRecords["v3"], r.clustersWaitingFor, going()),
	}
	for _, label := range labelled {
		watches = append(watches, simulation.WatchOf(s, someNamespace, r.clustersIn, labelChanged(label)))
	}
	for _, strategy := range r.strategies() {
		watches = append(watches, simulation.WatchOf(s, someRecords[strategy.Kind()], r.clustersOfRecord(strategy), recordChanged(r.writes)))
	}
	return watches
}

// Named returns the CAPI clusters that a change of a display name wakes.
func (r *Reconciler) Named(ctx context.Context, before, after *rancher.NamedCluster) []reconcile.Request {
	switch {
	case before == nil:
		return r.clustersOfName(ctx, after)
	case after == nil:
		return r.clustersOfName(ctx, before)
	case nameChanged().Update(event.TypedUpdateEvent[*rancher.NamedCluster]{ObjectOld: before, ObjectNew: after}):
		return append(r.clustersOfName(ctx, before), r.clustersOfName(ctx, after)...)
	}
	return nil
}

// RunningJobs are the CAPI clusters whose workload clusters are being worked on.
func (r *Reconciler) RunningJobs() []types.NamespacedName {
	r.jobs.mu.Lock()
	defer r.jobs.mu.Unlock()
	running := slices.DeleteFunc(slices.Collect(maps.Keys(r.jobs.entries)), func(key types.NamespacedName) bool {
		return !r.jobs.entries[key].open()
	})
	slices.SortFunc(running, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return running
}

// AwaitJob waits for the end of a job, and returns whose it was.
func (r *Reconciler) AwaitJob() reconcile.Request {
	ended := <-r.jobs.ended
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(ended.Object)}
}
