package identity

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do before the run looks again. It decides nothing, and prints as what it does.
type Action = reconcile.Action[*Reconciler]

// verify asks OCI whether it accepts the API key that one state of a Secret holds.
type verify struct {
	identity types.NamespacedName
	secret   types.NamespacedName
	version  version
}

// String implements fmt.Stringer.
func (v verify) String() string {
	return fmt.Sprintf("ask OCI about Secret %s in version %s", v.secret, v.version.resourceVersion)
}

// Do implements reconcile.Action. A Secret that was deleted wakes the controller.
func (v verify) Do(ctx context.Context, r *Reconciler) error {
	read, err := r.Resolver.readSecret(ctx, v.secret)
	if err != nil {
		return err
	}
	now := checked{version: read.version, flaw: read.flaw}
	if read.flaw == "" {
		now.answer, now.asked = r.Verifier.ask(ctx, read.credential), r.Clock.Now()
		r.Metrics.verified(now.answer.result)
	}
	r.memory.noteSecret(v.identity, now)
	return nil
}
