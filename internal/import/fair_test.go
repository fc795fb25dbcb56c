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
	queue := newQueue("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax))
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

func TestFreeSlotsGoToNamespacesByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		if !s.take(t.Context(), "crowd") {
			t.Fatal("a free slot was not given")
		}
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		gone, leave := context.WithCancel(t.Context())
		defer cancel()
		wait := func(ctx context.Context, namespace, name string) {
			go func() {
				if s.take(ctx, namespace) {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		wait(ctx, "other", "other/1") // It gets the second slot.
		wait(gone, "crowd", "crowd/0")
		wait(ctx, "crowd", "crowd/1")
		wait(ctx, "crowd", "crowd/2")
		wait(ctx, "other", "other/2")
		leave()
		synctest.Wait()
		for _, namespace := range []string{"crowd", "other", "crowd", "other"} {
			s.give(namespace)
			synctest.Wait()
		}
		want := []string{"other/1", "crowd/1", "other/2", "crowd/2"}
		if !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		s.give("crowd")
		if s.free != 2 || len(s.held) != 0 || s.waiting.Len() != 0 {
			t.Errorf("%d slots are free, %v are held, %d wait; want all free", s.free, s.held, s.waiting.Len())
		}
	})
}
