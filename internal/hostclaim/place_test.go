package hostclaim

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/shard"
)

// permissions are withdrawn in some namespaces.
type permissions struct {
	withdrawn []string
	err       error
	tell      func(string)
}

func (p *permissions) Withdrawn(_ context.Context, namespace string) (bool, error) {
	return slices.Contains(p.withdrawn, namespace), p.err
}

func (p *permissions) Returned(tell func(string)) { p.tell = tell }

// A controller works on nothing outside its scope, nor where its permissions are withdrawn, and does not ask again: it
// is told when they are there again.
func TestPlace(t *testing.T) {
	scope, err := shard.New([]string{"a", "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	given := &permissions{withdrawn: []string{"b"}}
	place := Place{Scope: scope, Permissions: given}
	var worked []string
	r := placed{place, reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
		worked = append(worked, request.Namespace)
		return ctrl.Result{}, nil
	})}
	requestIn := func(namespace string) ctrl.Request {
		return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "c"}}
	}
	for _, namespace := range []string{"a", "b", "c"} {
		if result, err := r.Reconcile(t.Context(), requestIn(namespace)); err != nil || !result.IsZero() {
			t.Errorf("%s: got %v, %v", namespace, result, err)
		}
	}
	if !slices.Equal(worked, []string{"a"}) {
		t.Errorf("it worked in %v, want in a alone", worked)
	}

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	in := func(_ context.Context, namespace string) []ctrl.Request { return []ctrl.Request{requestIn(namespace)} }
	if err := place.returns(in)(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	given.withdrawn = nil
	given.tell("b")
	woken, _ := queue.Get()
	if _, err := r.Reconcile(t.Context(), woken); err != nil || !slices.Equal(worked, []string{"a", "b"}) {
		t.Errorf("it worked in %v, %v, want in b, too", worked, err)
	}

	given.err = errors.New("boom")
	if _, err := r.Reconcile(t.Context(), requestIn("a")); !errors.Is(err, given.err) || len(worked) > 2 {
		t.Errorf("got %v after work in %v, want the error and no work", err, worked)
	}
}

// An instance from which nothing can be taken works in its scope.
func TestPlaceWithoutPermissions(t *testing.T) {
	has, err := Place{}.Has(t.Context(), "a")
	if err != nil || !has {
		t.Errorf("got %t, %v", has, err)
	}
	if err := (Place{}).returns(nil)(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
