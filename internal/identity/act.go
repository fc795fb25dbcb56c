package identity

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Action is one thing to do before the run looks again. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, r *Reconciler, identity types.NamespacedName) error
}

// verify asks OCI whether it accepts the API key that one state of a Secret holds.
type verify struct {
	secret  types.NamespacedName
	version version
}

// String implements fmt.Stringer.
func (v verify) String() string {
	return fmt.Sprintf("ask OCI about Secret %s in version %s", v.secret, v.version.resourceVersion)
}

func (v verify) do(ctx context.Context, r *Reconciler, identity types.NamespacedName) error {
	read, err := r.Resolver.readSecret(ctx, v.secret)
	if err != nil {
		return client.IgnoreNotFound(err) // What was deleted will wake the controller.
	}
	now := checked{version: read.version, flaw: read.flaw}
	if read.flaw == "" {
		now.answer, now.asked = r.Verifier.ask(ctx, read.credential), r.Clock.Now()
		r.Metrics.verified(now.answer.result)
	}
	r.memory.noteSecret(identity, now)
	return nil
}
