package baremetal

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-host-claim"

// Reconciler gives hosts to claims. Its requests name claims, existing or not: hosts can name one that is gone.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Read is what it reads from.
	Read Readers
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

	told  refusalsTold
	turns turns
}

// Reconcile implements reconcile.Reconciler. What is done wakes it again: a run that has done something ends there.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return reconcile.Run(ctx, request, r, reconcile.Steps[Observation, Decision, *Reconciler]{
		Observe: r.observe,
		Decide: func(o Observation) Decision {
			now := r.Clock.Now()
			d := Decide(o, now)
			r.turns.note(request.NamespacedName, o, d, now)
			return d
		},
		Actions: func(d Decision) []Action { return d.Actions },
		Publish: func(ctx context.Context, o Observation, d Decision) (ctrl.Result, error) {
			r.report(d.Refusals)
			return ctrl.Result{RequeueAfter: d.After}, r.publish(ctx, o.Claim, d)
		},
		Failed: r.publishFailure,
	})
}
