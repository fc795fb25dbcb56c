package importer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/outcome"
)

func request(id string) reconcile.Request {
	namespace, name, _ := strings.Cut(id, "/")
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func TestQueueServesNamespacesByTurns(t *testing.T) {
	queue := newQueue(1)("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax))
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

// crowdOfJobs starts jobs of one namespace that end when they are told, and returns how many run.
func crowdOfJobs(j *jobs, n int, end chan struct{}) *atomic.Int32 {
	running := &atomic.Int32{}
	for i := range n {
		key := types.NamespacedName{Namespace: "crowd", Name: fmt.Sprint(i)}
		j.Do(key, "input", func(context.Context) outcome.Outcome {
			running.Add(1)
			<-end
			return outcome.Done()
		})
	}
	synctest.Wait()
	return running
}

func TestJobsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 10)
		end := make(chan struct{})
		running := crowdOfJobs(j, 30, end)
		if n := running.Load(); n != 9 {
			t.Fatalf("%d jobs of one namespace run in 10 slots, want 9", n)
		}
		// Nobody of the crowd has ended yet.
		j.Do(jobKey, "input", func(context.Context) outcome.Outcome { return outcome.Done() })
		settle(t, j)
		go func() {
			for range j.ended { // Taken so that no job waits for it.
			}
		}()
		close(end)
		synctest.Wait()
		if n := running.Load(); n != 30 {
			t.Errorf("%d jobs have run, want all 30", n)
		}
		close(j.ended)
		j.ended = nil
	})
}

// What waits for others of its namespace keeps its place, and costs nobody else a turn.
func TestQueueHoldsANamespaceToItsShare(t *testing.T) {
	fair := newFair(2)
	take := func(want string) {
		t.Helper()
		if fair.Len() == 0 {
			t.Fatalf("nothing is handed out, want %s", want)
		}
		if got := fair.Pop().String(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	nothing := func() {
		t.Helper()
		if n := fair.Len(); n != 0 {
			t.Fatalf("%d namespaces may have a turn, want none", n)
		}
	}
	for _, id := range []string{"crowd/1", "crowd/2", "crowd/3", "crowd/4"} {
		fair.Push(request(id))
	}
	take("crowd/1")
	fair.Push(request("alone/1"))
	take("crowd/2")
	take("alone/1")
	nothing()
	fair.Push(request("crowd/5"))
	fair.done("alone")
	nothing()
	fair.Push(request("alone/2"))
	fair.done("crowd")
	take("alone/2")
	take("crowd/3")
	nothing()
	fair.done("crowd")
	fair.done("crowd")
	take("crowd/4")
	take("crowd/5")
	for _, namespace := range []string{"crowd", "crowd", "alone"} {
		fair.done(namespace)
	}
	if len(fair.turns)+len(fair.waiting)+len(fair.held) != 0 {
		t.Errorf("it remembers turns of %v, %v waiting and %v handed out; want nothing", fair.turns, fair.waiting, fair.held)
	}
}
