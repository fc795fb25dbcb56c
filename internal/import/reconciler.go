package importer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// conflictRetry is the pause after an optimistic lock failed: time enough for the watch to bring
// the newer object, whose event alone may be filtered out as irrelevant.
const conflictRetry = 50 * time.Millisecond

// withdrawnRetry is the pause after a cluster was left alone whose namespace was taken from the instance. The instance may get it again, which no
// watch on the cluster tells.
const withdrawnRetry = 10 * time.Second

// Reconciler imports CAPI clusters into Rancher. All fields are required unless they say otherwise.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server. It settles what a stale cache cannot.
	APIReader client.Reader
	// Recorder publishes Events on CAPI Clusters.
	Recorder events.EventRecorder
	// Active is the strategy that makes new records.
	Active Strategy
	// Others are the remaining strategies. Their records are cleaned up, never made.
	Others []Strategy
	// Settings reads Rancher's settings.
	Settings *rancher.Settings
	// Tokens finds the registration of a Rancher cluster.
	Tokens *rancher.Tokens
	// DisplayNames knows who has which display name in Rancher. It is added by SetupWithManager.
	DisplayNames *rancher.DisplayNames
	// Downloader gets Rancher's import manifest.
	Downloader *rancher.Downloader
	// Workloads opens workload clusters.
	Workloads *workload.Clients
	// Metrics counts what the reconciler does.
	Metrics *Metrics
	// Self is this instance.
	Self instance.ID
	// Runs reports whether another instance runs, by the name in InstanceAnnotation. Optional: nobody else does.
	Runs func(instance string) bool
	// Claim limits the import to CAPI Clusters; the zero value is all.
	Claim instance.Claim
	// Withdrawn reports whether a namespace was taken from this instance while it runs: nothing is worked on there. Optional.
	Withdrawn func(ctx context.Context, namespace string) (bool, error)
	// Principals knows whether clusters may work with the principals of their infrastructure. Optional.
	Principals Principals
	// AdoptTurtles takes over records that Rancher Turtles made, unless the CAPI Cluster says otherwise.
	AdoptTurtles bool
	// TurtlesParked says that Rancher Turtles runs and imports nothing: its Lease stops no import.
	TurtlesParked bool
	// FleetWorkspaces are those that a CAPI Cluster may ask for. Fleet brings what belongs to a workspace, secrets included, to all of its clusters, and
	// Rancher asks only whether we may add clusters to it.
	FleetWorkspaces []string
	// DisconnectGrace is how long an agent that was connected may be disconnected before anything is done about it; default at once.
	DisconnectGrace time.Duration
	// AgentGone reports whether the agent of a CAPI Cluster was seen to have gone from its workload cluster: it is looked at then, whatever Rancher
	// says of its connection. Optional.
	AgentGone func(cluster types.NamespacedName) bool
	// Jobs is how many workload clusters are worked on at the same time; default 100.
	Jobs int
	// Switches is how many clusters change over to the kind of the active strategy at the same time; none if zero.
	Switches int
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	jobs          *jobs
	writes        *ownWrites
	told          *told
	turns         *turns
	registrations *patience
	conflicts     *conflicts
	creations     *creations
	reserved      *reservations
	looks         *looks
	holdings      *holdings
	contests      *contests
	replacements  *replacements
	identity      identity
	turtles       turtlesLease
	takings       takings
	tokenSecrets  client.Reader
	assigned      client.Reader // Namespaces with ManagedByLabel

	disconnections disconnections
}

// scope is what one reconcile knows.
type scope struct {
	// cluster is a copy of the cached CAPI cluster, renewed by each patch.
	cluster *clusterv1.Cluster
	// intent is set before the phases run.
	intent intent
	// records name the cluster as their owner; derived are Rancher's own companions of such records.
	records, derived []record
	// problem is why the import label cannot be read.
	problem error
	// assigned says who is to import the cluster.
	assigned assignment

	// claimed is set by the claim phase when the record's name was written ahead in this run, which proves that
	// the cached cluster was current.
	claimed bool
	// chosen is set by the claim phase when the name was chosen in this run, instead of read from the cluster, where others can write it.
	chosen bool
	// record is set by the record phase.
	record *record
	// created is set by the record phase when it made the record.
	created bool
	// adopted is set when a record of Rancher Turtles was taken over in this run.
	adopted bool
	// removed is set when the deletion of the record in Rancher was seen.
	removed bool
	// waits is set by the turn phase while the record is of another kind and is not to be replaced yet: it is what to say about that.
	waits string
	// refused is set by the principal phase: what to say about a cluster that was imported before its principal was refused.
	refused string
	// queued is set by the turn phase when the cluster has a slot to change over, or a place in the queue for one.
	queued bool
	// replaces is set by the turn phase to the record that is to be replaced now.
	replaces *record
	// management is set by the management phase.
	management *managementCluster
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

// Reconcile brings one CAPI cluster and its record in line.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.Claim.Scope.Owns(req.Namespace) {
		// A label or a name led here. What the cache does not hold must not be taken for gone.
		return ctrl.Result{}, nil
	}
	if withdrawn, err := r.withdrawn(ctx, req.NamespacedName); err != nil {
		return ctrl.Result{}, err
	} else if withdrawn {
		return ctrl.Result{RequeueAfter: withdrawnRetry}, nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("getting CAPI cluster: %w", err)
		}
		r.forgetAll(ctx, req.NamespacedName)
		left, err := r.releaseOrphans(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: left}, err
	}
	if r.writes.ahead(cluster) {
		// The watch is about to bring what we wrote ourselves. Its event wakes us, unless it is filtered out.
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	r.holdings.note(cluster)
	if !r.responsible(cluster) {
		r.forgetAll(ctx, req.NamespacedName)
		return r.leaveBehind(ctx, cluster)
	}
	s, err := r.newScope(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	out := r.run(ctx, s)
	r.noteTurn(ctx, s, out)
	return r.finish(ctx, s, out)
}

// withdrawn forgets a cluster whose namespace was taken from this instance: the role keeper lets go of what is held there.
func (r *Reconciler) withdrawn(ctx context.Context, key types.NamespacedName) (bool, error) {
	if r.Withdrawn == nil {
		return false, nil
	}
	withdrawn, err := r.Withdrawn(ctx, key.Namespace)
	if err != nil || !withdrawn {
		return false, err
	}
	r.forgetAll(ctx, key)
	r.holdings.forget(key)
	return true, nil
}

// forgetAll drops what is known of a cluster that is gone, or that this instance handles no more.
func (r *Reconciler) forgetAll(ctx context.Context, key types.NamespacedName) {
	r.turns.leave(ctx, key)
	r.forget(key)
	r.told.forget(key)
	r.conflicts.forget(key)
	r.takings.forget(key)
	r.looks.forget(key)
	r.replacements.forget(key)
}

// responsible reports whether this instance handles the cluster. Deletion is handled whatever the watch filter says:
// every step of it is idempotent, and a label that was taken away must not leave a finalizer behind. leaveBehind is about the deletion of a
// record of such a cluster.
func (r *Reconciler) responsible(cluster *clusterv1.Cluster) bool {
	return r.Claim.Covers(cluster) || !cluster.DeletionTimestamp.IsZero() && holds(cluster)
}

func (r *Reconciler) newScope(ctx context.Context, cluster *clusterv1.Cluster) (*scope, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: cluster.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("getting namespace: %w", err)
	}
	records, derived, err := r.recordsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	assignment, err := r.namespaceAssignment(ctx, cluster.Namespace)
	if err != nil {
		return nil, err
	}
	s := &scope{cluster: cluster, records: records, derived: derived, assigned: assignedTo(cluster.Annotations, assignment)}
	want, problem := chosen(cluster.Labels, namespace.Labels)
	s.problem = problem
	s.intent = intend(s, want)
	return s, nil
}

// run executes the phases of the intent; the first that is not Done stops. A phase that is Done for the time being says when to look again.
func (r *Reconciler) run(ctx context.Context, s *scope) outcome.Outcome {
	done := outcome.Done()
	for _, p := range r.plan(s.intent) {
		out := p.run(ctx, s)
		if !out.IsDone() {
			r.Metrics.stopped(p.name, out)
			ctrl.LoggerFrom(ctx).V(1).Info("Stopped", "phase", p.name, "outcome", out.Kind.String(), "reason", out.Reason)
			return out
		}
		if out.After > 0 && (done.After == 0 || out.After < done.After) {
			done = out
		}
	}
	return done
}
