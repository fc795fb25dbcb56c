package machines

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hostclaim"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-host-claim-machines"

// Reconciler gives claims to Metal3Machines. Its requests name Metal3Machines, existing or not.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Read is what it reads from.
	Read Readers
	// Recorder records Events.
	Recorder events.EventRecorder
	// Place is where it works.
	Place hostclaim.Place
}

// Reconcile implements reconcile.Reconciler. What is done wakes it again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o)
	if d.Problem != "" {
		r.warn(o, d.Problem)
	}
	for _, action := range d.Actions {
		ctrl.LoggerFrom(ctx).V(1).Info("Acting", "action", action.String())
		if err := action.do(ctx, r); hostclaim.Overtaken(err) {
			return ctrl.Result{}, nil // The event of that wakes the controller, if it has not done so already.
		} else if err != nil {
			err = fmt.Errorf("%s: %w", action, err)
			r.warn(o, err.Error())
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// warn tells the user of a Machine what hinders it.
func (r *Reconciler) warn(o Observation, note string) {
	if o.Machine == nil {
		return
	}
	object := newMachine()
	object.SetNamespace(o.Machine.Namespace)
	object.SetName(o.Machine.Name)
	object.SetUID(o.Machine.UID)
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "NoHostClaim", "Claim", "%s", hostclaim.Bounded(note))
}
