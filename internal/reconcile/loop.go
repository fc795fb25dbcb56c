// Package reconcile has the loop that controllers share: a run observes, decides, acts, and publishes what it decided.
//
// A controller gives its steps to Run:
//
//	func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
//		return reconcile.Run(ctx, request, r, reconcile.Steps[Observation, Decision, *Reconciler]{
//			Observe: r.observe,
//			Decide:  func(o Observation) Decision { return Decide(o, r.Clock.Now()) },
//			Actions: func(d Decision) []Action { return d.Actions },
//			Publish: r.publish,
//		})
//	}
//
// Add has watches wake it.
package reconcile

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Action is one write. It decides nothing, carries its precondition, and prints as what it does, without a secret.
// By is what it writes with.
type Action[By any] interface {
	fmt.Stringer
	Do(ctx context.Context, by By) error
}

// Steps are what differs between controllers. O is what a run reads, and D what it decides.
type Steps[O, D, By any] struct {
	// Observe reads everything that the decision depends on. It decides nothing and writes nothing.
	Observe func(ctx context.Context, key types.NamespacedName) (O, error)
	// Decide says what to do. It reads nothing and writes nothing.
	Decide func(o O) D
	// Actions are the writes of a decision, in their order.
	Actions func(d D) []Action[By]
	// Publish reports a decision without actions: in the status, in Events, in metrics.
	Publish func(ctx context.Context, o O, d D) (ctrl.Result, error)
	// Failed reports that an action has failed. The error that it returns is added to the cause. Optional.
	Failed func(ctx context.Context, o O, d D, action Action[By], cause error) error
	// Silent is whether actions change nothing that wakes the controller. After these, the run observes once more, and
	// publishes what it decides then.
	Silent bool
}

// Run makes one run of a controller. Actions change what the controller watches, so a run that has acted ends, and the
// event of the last write begins the next run. It ends as well when a write was overtaken: the event of the write
// that was first is on its way.
func Run[O, D, By any](ctx context.Context, request ctrl.Request, by By, steps Steps[O, D, By]) (ctrl.Result, error) {
	for acted := false; ; acted = true {
		o, err := steps.Observe(ctx, request.NamespacedName)
		if err != nil {
			return ctrl.Result{}, err
		}
		d := steps.Decide(o)
		actions := steps.Actions(d)
		if len(actions) == 0 || acted {
			result, err := steps.Publish(ctx, o, d)
			if err != nil {
				return ctrl.Result{}, IgnoreOvertaken(err)
			}
			return result, nil
		}
		failed, err := act(ctx, by, actions)
		switch {
		case Overtaken(err):
			return ctrl.Result{}, nil
		case err != nil:
			err = fmt.Errorf("%s: %w", failed, err)
			if steps.Failed != nil {
				err = errors.Join(err, IgnoreOvertaken(steps.Failed(ctx, o, d, failed, err)))
			}
			return ctrl.Result{}, err
		case !steps.Silent:
			return ctrl.Result{}, nil
		}
	}
}

// act does actions up to the first one that is not done, which it returns with the error.
func act[By any](ctx context.Context, by By, actions []Action[By]) (failed Action[By], err error) {
	for _, action := range actions {
		ctrl.LoggerFrom(ctx).V(1).Info("Acting", "action", action.String())
		if err := action.Do(ctx, by); err != nil {
			return action, err
		}
	}
	return nil, nil
}
