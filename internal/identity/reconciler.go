package identity

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-identity"

// Reconciler shows on each OCIClusterIdentity whether it works and who uses it. Its requests name identities, existing
// or not: clusters can name one before it is there.
type Reconciler struct {
	// Client writes status.
	Client client.Client
	// Resolver reads.
	Resolver *Resolver
	// Recorder records Events.
	Recorder events.EventRecorder
	// Metrics are optional.
	Metrics *Metrics
	// Verifier asks OCI about API keys; nil for not to.
	Verifier *Verifier
	// Notify is called with the kind and the name of each cluster whose verdict is another than before, also the first
	// time after a start, and of each that names no identity when it comes. It must not block. Optional.
	Notify func(kind string, cluster types.NamespacedName)
	// Clock is optional.
	Clock clock.PassiveClock

	memory *memory
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	for acted := false; ; acted = true {
		o, err := r.observe(ctx, request.NamespacedName)
		if err != nil {
			return ctrl.Result{}, err
		}
		d := Decide(o, Rules{Policy: r.Resolver.Scope.Policy, Verify: r.Verifier != nil}, r.Clock.Now())
		if d.Action == nil || acted {
			return r.publish(ctx, request.NamespacedName, o, d)
		}
		log.V(1).Info("Acting", "action", d.Action.String())
		if err := d.Action.do(ctx, r, request.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
	}
}
