package importer

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

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
