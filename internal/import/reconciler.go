package importer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// Reconciler imports CAPI clusters into Rancher. All fields are required unless they say otherwise.
type Reconciler struct {
	// Rules decide what is done.
	Rules
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server. It settles what a stale cache cannot.
	APIReader client.Reader
	// Rancher and RancherReader do the same in Rancher's cluster, which has the Rancher clusters. Optional:
	// it is the management cluster.
	Rancher       client.Client
	RancherReader client.Reader
	// Recorder publishes Events on CAPI Clusters.
	Recorder events.EventRecorder
	// Settings reads Rancher's settings.
	Settings *rancher.Settings
	// Tokens finds the registration of a Rancher cluster.
	Tokens *rancher.Tokens
	// DisplayNames knows who has which display name in Rancher. It is added by SetupWithManager.
	DisplayNames *rancher.DisplayNames
	// Downloader gets Rancher's import manifest.
	Downloader downloader
	// Workloads opens workload clusters.
	Workloads *workload.Clients
	// Metrics counts what the reconciler does.
	Metrics *Metrics
	// Runs reports whether another instance runs, by the name in InstanceAnnotation. Optional: nobody else does.
	Runs func(instance string) bool
	// Keeps reports whether another instance has a CAPI Cluster in a namespace with these labels, see instance.Keeps.
	// Optional: nobody does.
	Keeps func(cluster client.Object, namespace map[string]string) bool
	// Withdrawn reports whether a namespace was taken from this instance while it runs: nothing
	// is worked on there. Optional.
	Withdrawn func(ctx context.Context, namespace string) (bool, error)
	// Principals knows whether clusters may work with the principals of their infrastructure. Optional.
	Principals Principals
	// AgentGone reports whether the agent of a CAPI Cluster was seen to have gone from its workload cluster: it is looked
	// at then, whatever Rancher says of its connection. Optional.
	AgentGone func(cluster types.NamespacedName) bool
	// AgentPodSecurity is the level of Pod Security of the agent's namespace where that is created. Optional: none.
	AgentPodSecurity string
	// Jobs is how many workload clusters are worked on at the same time; default 100.
	Jobs int
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	*memory
	jobs         *jobs
	identity     identity
	open         func(ctx context.Context, cluster types.NamespacedName, from kubeconfig.Source) (site, error)
	tokenSecrets client.Reader
	assigned     client.Reader // Namespaces with ManagedByLabel
}

// site is a workload cluster, as far as an installation of the agent deals with it.
type site interface {
	Inspect(ctx context.Context) (agent.State, error)
	NoCleanup(ctx context.Context) error
	applier
	Diagnose(ctx context.Context, inspected agent.State, warned bool) agent.Cause
	UID(ctx context.Context) (types.UID, error)
}

// downloader gets Rancher's import manifest.
type downloader interface {
	Manifest(ctx context.Context, registration rancher.Registration, trust rancher.Trust) (*rancher.Manifest, error)
}

// recall has nothing of what is remembered under the name of the cluster be that of an earlier one. The watch can show
// two clusters of one name as one that has changed.
func (r *Reconciler) recall(cluster *clusterv1.Cluster) {
	if former := r.incarnations.note(cluster); former != "" {
		key := client.ObjectKeyFromObject(cluster)
		r.forgetAll(key)
		r.forgetIncarnation(former)
		r.incarnations.note(cluster)
	}
}

// forgetAll drops what is remembered under the name of a cluster, but for what it held.
func (r *Reconciler) forgetAll(key types.NamespacedName) {
	r.forget(key)
	r.forgetCluster(key)
}

// forget drops what is kept for the work on a workload cluster: the last result, with which the connection ends, and
// since when its agent is disconnected.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.jobs.Forget(key)
	r.registrations.forget(key)
	r.disconnections.forget(key)
	r.contests.forget(key)
	r.halves.forget(key)
}
