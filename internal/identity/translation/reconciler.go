package translation

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/internal/shard"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-credential-translation"

// Reconciler has identities and their Secrets follow cloud credentials. Its requests name all three of them, existing
// or not; the namespace of a request is that of the identity.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Objects has identities, Metadata the metadata of Secrets. Both are caches.
	Objects, Metadata client.Reader
	// Recorder records Events.
	Recorder events.EventRecorder
	// Policy is what an administrator says.
	Policy Policy
	// Scope is where the instance works, and receives clusters.
	Scope shard.Scope
	// Metrics are optional.
	Metrics *Metrics
	// Clock is optional.
	Clock clock.PassiveClock

	memory *memory
}

// Reconcile implements reconcile.Reconciler. What is done wakes it again: a run that has done something ends there.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return reconcile.Run(ctx, request, r, reconcile.Steps[Observation, Decision, *Reconciler]{
		Observe: func(ctx context.Context, key types.NamespacedName) (Observation, error) {
			return r.observe(ctx, key.Name)
		},
		Decide:  func(o Observation) Decision { return Decide(o, r.Policy, r.Clock.Now()) },
		Actions: func(d Decision) []Action { return d.Actions },
		Publish: func(ctx context.Context, o Observation, d Decision) (ctrl.Result, error) {
			return ctrl.Result{}, r.publish(ctx, request.Name, o, d)
		},
	})
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Live == nil || r.Objects == nil || r.Metadata == nil || r.Recorder == nil {
		return errors.New("the translation of cloud credentials needs a client, three readers and a recorder of events")
	}
	if err := r.Policy.Validate(); err != nil {
		return err
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.memory = newMemory()
	if r.Metrics != nil {
		r.Metrics.memory.Store(r.memory)
	}
	return nil
}
