package importer

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// beginning has a reconciler do nothing, reads included, until a channel is closed; nil is at once. What it reads is
// not older than that then.
func beginning(when <-chan struct{}, then reconcile.Reconciler) reconcile.Reconciler {
	if when == nil {
		return then
	}
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		select {
		case <-when:
			return then.Reconcile(ctx, request)
		case <-ctx.Done():
			return reconcile.Result{}, nil
		}
	})
}
