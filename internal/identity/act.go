package identity

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do before the run looks again. It decides nothing, and prints as what it does.
type Action = reconcile.Action[*Reconciler]

// verify asks OCI whether it accepts the API key that one state of a Secret holds, unless another identity with that
// Secret has asked since.
type verify struct {
	secret types.NamespacedName
	seen   checked
}

// String implements fmt.Stringer.
func (v verify) String() string {
	return fmt.Sprintf("ask OCI about Secret %s in version %s", v.secret, v.seen.version.resourceVersion)
}

// Do implements reconcile.Action. A Secret that was deleted wakes the controller.
func (v verify) Do(ctx context.Context, r *Reconciler) error {
	_, err, _ := r.asks.Do(v.secret.String(), func() (any, error) {
		if is, ok := r.memory.secret(v.secret, v.seen.version); ok && is.asked.After(v.seen.asked) {
			return nil, nil
		}
		read, err := r.Resolver.readSecret(ctx, v.secret)
		if err != nil {
			return nil, err
		}
		now := checked{version: read.version, flaw: read.flaw}
		if read.flaw == "" {
			now.answer, now.asked = r.Verifier.ask(ctx, read.credential), r.Clock.Now()
			r.Metrics.verified(now.answer.result)
		}
		r.memory.noteSecret(v.secret, now)
		return nil, nil
	})
	return err
}
