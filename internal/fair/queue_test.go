package fair

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(id string) reconcile.Request {
	namespace, name, _ := strings.Cut(id, "/")
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func TestQueueServesNamespacesByTurns(t *testing.T) {
	queue := NewQueue(1)("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute))
	defer queue.ShutDown()
	for _, id := range []string{"crowd/1", "crowd/2", "crowd/3", "crowd/4", "alone/1", "pair/1", "pair/2", "crowd/2"} {
		queue.Add(request(id))
	}
	var got []string
	for queue.Len() > 0 {
		if len(got) == 4 {
			queue.Add(request("late/1"))
		}
		next, _ := queue.Get()
		got = append(got, next.String())
		queue.Done(next)
	}
	want := []string{"crowd/1", "alone/1", "pair/1", "crowd/2", "pair/2", "crowd/3", "late/1", "crowd/4"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// What waits for others of its namespace keeps its place, and costs nobody else a turn.
func TestQueueHoldsANamespaceToItsShare(t *testing.T) {
	turns := newTurns(2)
	take := func(want string) {
		t.Helper()
		if turns.Len() == 0 {
			t.Fatalf("nothing is handed out, want %s", want)
		}
		if got := turns.Pop().String(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	nothing := func() {
		t.Helper()
		if n := turns.Len(); n != 0 {
			t.Fatalf("%d namespaces may have a turn, want none", n)
		}
	}
	for _, id := range []string{"crowd/1", "crowd/2", "crowd/3", "crowd/4"} {
		turns.Push(request(id))
	}
	take("crowd/1")
	turns.Push(request("alone/1"))
	take("crowd/2")
	take("alone/1")
	nothing()
	turns.Push(request("crowd/5"))
	turns.done("alone")
	nothing()
	turns.Push(request("alone/2"))
	turns.done("crowd")
	take("alone/2")
	take("crowd/3")
	nothing()
	turns.done("crowd")
	turns.done("crowd")
	take("crowd/4")
	take("crowd/5")
	for _, namespace := range []string{"crowd", "crowd", "alone"} {
		turns.done(namespace)
	}
	if len(turns.order)+len(turns.waiting)+len(turns.held) != 0 {
		t.Errorf("it remembers turns of %v, %v waiting and %v handed out; want nothing", turns.order, turns.waiting, turns.held)
	}
}
