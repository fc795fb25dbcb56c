package importer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// Reconciler imports CAPI clusters into Rancher. All fields are required unless they say otherwise.
type Reconciler struct {
	// Rules decide what is done.
	Rules
	// Client reads from the manager's cache and writes to the management cluster.
	Client client.Client
	// APIReader reads from the API server. It settles what a stale cache cannot.
	APIReader client.Reader
	// Rancher and RancherReader do the same in Rancher's cluster, which has the Rancher clusters. Optional: it is the management cluster.
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
	// Keeps reports whether another instance, by the name in InstanceAnnotation, has yet to leave what names it in a namespace: it says so itself
	// by taking its name off. Optional: nobody does.
	Keeps func(instance, namespace string) bool
	// Withdrawn reports whether a namespace was taken from this instance while it runs: nothing is worked on there. Optional.
	Withdrawn func(ctx context.Context, namespace string) (bool, error)
	// Principals knows whether clusters may work with the principals of their infrastructure. Optional.
	Principals Principals
	// AgentGone reports whether the agent of a CAPI Cluster was seen to have gone from its workload cluster: it is looked at then, whatever Rancher
	// says of its connection. Optional.
	AgentGone func(cluster types.NamespacedName) bool
	// Jobs is how many workload clusters are worked on at the same time; default 100.
	Jobs int
	// Switches is how many clusters change over to the kind of the active strategy at the same time; none if zero.
	Switches int
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	*memory
	jobs         *jobs
	identity     identity
	open         func(ctx context.Context, cluster types.NamespacedName) (site, error)
	tokenSecrets client.Reader
	assigned     client.Reader // Namespaces with ManagedByLabel
}

// Reconcile brings one CAPI cluster and its record in line.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.finish(ctx, o, r.run(ctx, o, r.Decide))
}

// run does what is decided until nothing is left to do, or something fails. It returns the last decision.
func (r *Reconciler) run(ctx context.Context, o *Observation, decide decider) Decision {
	for {
		d := decide(*o, r.Clock.Now())
		o.intent = d.Intent
		if out := r.step(ctx, o, d); !out.IsDone() {
			d.Outcome = out
			return d
		}
		if d.ends() {
			return d
		}
	}
}

// step asks for what a decision has to know, or does what it says. Nothing is asked or done twice in a run, so each run
// ends, even if somebody undoes what it does.
func (r *Reconciler) step(ctx context.Context, o *Observation, d Decision) outcome.Outcome {
	if d.Look != nil {
		if out := o.once(d.Look); !out.IsDone() {
			return out
		}
		return outcome.FromError(d.Look.read(ctx, r, o), archelonv1.InternalErrorReason)
	}
	for _, action := range d.Actions {
		ctrl.LoggerFrom(ctx).V(1).Info("Acting", "phase", d.Phase, "action", action.String())
		if out := o.once(action); !out.IsDone() {
			return out
		}
		if out := action.do(ctx, r, o); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}
