package machines

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
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
	return reconcile.Run(ctx, request, r, reconcile.Steps[Observation, Decision, *Reconciler]{
		Observe: r.observe,
		Decide:  Decide,
		Actions: func(d Decision) []Action { return d.Actions },
		Publish: func(_ context.Context, o Observation, d Decision) (ctrl.Result, error) {
			if d.Problem != "" {
				r.warn(o, d.Problem)
			}
			return ctrl.Result{}, nil
		},
		Failed: func(_ context.Context, o Observation, _ Decision, _ Action, cause error) error {
			r.warn(o, cause.Error())
			return nil
		},
	})
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
