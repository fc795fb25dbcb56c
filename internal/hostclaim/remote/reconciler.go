package remote

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// FieldOwner is the name under which API servers record what this controller writes.
const FieldOwner = "archelon-host-claim-remote"

// lookAgain is how soon it is looked again whether the target of an earlier source is gone. Its events wake nobody.
const lookAgain = time.Minute

// Reconciler has claims of other clusters stand for those of this one.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Read is what it reads from.
	Read Readers
	// Remotes lead to other clusters.
	Remotes Remotes
	// Recorder records Events.
	Recorder events.EventRecorder
	// Place is where it works.
	Place hostclaim.Place
	// NoClusters: the kind of CAPI Clusters does not exist, so none of them pauses a claim.
	NoClusters bool
	// Metrics are optional.
	Metrics *hostclaim.Metrics
	// Clock is optional.
	Clock clock.PassiveClock
}

// run is one run, with what it has seen and the other cluster that it uses.
type run struct {
	*Reconciler
	seen   Observation
	remote *Remote
	// there is the other cluster, nil if it was not asked or did not answer.
	there Cluster
}

// Reconcile implements reconcile.Reconciler. What is done wakes it again: a run that has done something ends there.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	this := &run{Reconciler: r}
	_, err := reconcile.Run(ctx, request, this, reconcile.Steps[Observation, Decision, *run]{
		Observe: this.observe,
		Decide:  func(o Observation) Decision { return Decide(o, r.Clock.Now()) },
		Actions: func(d Decision) []Action { return d.Actions },
		Publish: func(ctx context.Context, o Observation, d Decision) (ctrl.Result, error) {
			return ctrl.Result{}, r.publish(ctx, o.Claim, d)
		},
		Failed: func(ctx context.Context, o Observation, _ Decision, _ Action, cause error) error {
			return r.publish(ctx, o.Claim, failed(o.Claim, cause, r.Clock.Now()))
		},
	})
	if err = errors.Join(err, this.seen.Failure); this.remote != nil {
		this.remote.Release(err)
	}
	if ofConnection(err) {
		err = nil // What follows the other cluster wakes the source.
	}
	switch {
	case err != nil:
		return ctrl.Result{}, reconcile.IgnoreOvertaken(err)
	case this.seen.Earlier != nil:
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	default:
		return ctrl.Result{RequeueAfter: this.seen.Wait}, nil
	}
}

// observe reads, and keeps what the end of the run needs of that.
func (r *run) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	var err error
	if r.seen, r.remote, err = r.Reconciler.observe(ctx, key); r.remote != nil {
		r.there = r.remote.Cluster
	}
	return r.seen, err
}
