package members

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/instance"
)

// Reconciler has the bindings of a Rancher cluster follow the annotation of its CAPI Cluster.
type Reconciler struct {
	// Client reads from the manager's cache and writes to the management cluster, APIReader reads from its API server.
	Client    client.Client
	APIReader client.Reader
	// Rancher reads from the cache of Rancher's cluster and writes there, RancherReader reads from its API server.
	Rancher       client.Client
	RancherReader client.Reader
	// Claim is what this instance works on, and Self what it is called on what it imports.
	Claim instance.Claim
	Self  instance.ID
	// Policy is what an administrator allows.
	Policy Policy
	// Recorder publishes Events on CAPI Clusters.
	Recorder events.EventRecorder
	// Clock is the time; default the real one.
	Clock clock.PassiveClock

	written condition.Written
}

// Reconcile implements reconcile.Reconciler. Each round of actions answers what the one before it left
// open, and nothing is done twice.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o, r.Policy, r.Clock.Now())
	for len(d.Actions) > 0 {
		for _, action := range d.Actions {
			ctrl.LoggerFrom(ctx).Info("Acting", "action", action.String())
			if err := action.do(ctx, r, &o); errors.Is(err, errOvertaken) {
				return ctrl.Result{}, nil
			} else if err != nil {
				return ctrl.Result{}, fmt.Errorf("%s: %w", action, err)
			}
		}
		d = Decide(o, r.Policy, r.Clock.Now())
	}
	if d.Publish != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Acting", "action", d.Publish.String())
		if err := d.Publish.do(ctx, r, &o); errors.Is(err, condition.ErrOvertaken) {
			return ctrl.Result{}, nil // The event of that is on its way.
		} else if err != nil {
			return ctrl.Result{}, fmt.Errorf("publishing the condition: %w", err)
		}
		if p, ok := d.Publish.(publish); ok {
			r.written.Note(o.Cluster, p.condition)
		}
	}
	if d.Event != nil {
		r.Recorder.Eventf(o.Cluster, nil, d.Event.Type, d.Event.Reason, "BindMembers", "%s", d.Event.Note)
	}
	return ctrl.Result{RequeueAfter: d.Again}, nil
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.APIReader == nil || r.Rancher == nil || r.RancherReader == nil || r.Recorder == nil {
		return errors.New("members need two clients, two readers and a recorder of events")
	}
	if err := r.Policy.Validate(); err != nil {
		return err
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	return nil
}
