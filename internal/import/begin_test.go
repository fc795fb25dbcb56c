package importer

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestNothingBeginsTooEarly(t *testing.T) {
	ran := make(chan struct{}, 1)
	inner := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		ran <- struct{}{}
		return reconcile.Result{}, nil
	})
	when := make(chan struct{})
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := beginning(when, inner).Reconcile(ended, reconcile.Request{}); err != nil || len(ran) > 0 {
		t.Errorf("it ran before: %v", err)
	}
	close(when)
	for name, from := range map[string]<-chan struct{}{"then": when, "at once": nil} {
		if _, err := beginning(from, inner).Reconcile(t.Context(), reconcile.Request{}); err != nil || len(ran) == 0 {
			t.Fatalf("%s: it did not run: %v", name, err)
		}
		<-ran
	}
}
