package identity

import (
	"context"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/reconcile"
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
	// Checker asks OCI about clusters; nil for not to.
	Checker *Checker
	// Notify is called with the kind and the name of each cluster whose verdict is another than before, also the first
	// time after a start, and of each that names no identity when it comes. It must not block. Optional.
	Notify func(kind string, cluster types.NamespacedName)
	// Clock is optional.
	Clock clock.PassiveClock

	memory *memory
	// reads and asks keep identities with one Secret from reading it, and from asking OCI about it, at the same time.
	reads, asks singleflight.Group
}

// Reconcile implements reconcile.Reconciler. An answer of OCI is remembered, which wakes nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return reconcile.Run(ctx, request, r, reconcile.Steps[Observation, Decision, *Reconciler]{
		Observe: r.observe,
		Decide: func(o Observation) Decision {
			return Decide(o, Rules{Policy: r.Resolver.Scope.Policy, Verify: r.Verifier != nil}, r.Clock.Now())
		},
		Actions: func(d Decision) []Action { return d.Actions },
		Publish: func(ctx context.Context, o Observation, d Decision) (ctrl.Result, error) {
			return r.publish(ctx, request.NamespacedName, o, d)
		},
		Silent: true,
	})
}
