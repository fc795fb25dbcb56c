package importer

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fair hands out what waits in many namespaces by turns, and what waits in one namespace in the order in which it came: a tenant with
// hundreds of clusters delays another one by a cluster, not by hundreds. It implements workqueue.Queue and is not safe for
// concurrent use.
type fair[T any] struct {
	namespaceOf func(T) string
	waiting     map[string][]T
	// turns are the namespaces in which something waits; the next one is first.
	turns  []string
	length int
}

func newFair[T any](namespaceOf func(T) string) *fair[T] {
	return &fair[T]{namespaceOf: namespaceOf, waiting: map[string][]T{}}
}

// Touch implements workqueue.Queue. What is added again keeps its place.
func (*fair[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (f *fair[T]) Push(item T) {
	namespace := f.namespaceOf(item)
	if len(f.waiting[namespace]) == 0 {
		f.turns = append(f.turns, namespace)
	}
	f.waiting[namespace] = append(f.waiting[namespace], item)
	f.length++
}

// Len implements workqueue.Queue.
func (f *fair[T]) Len() int { return f.length }

// Pop implements workqueue.Queue. It is called only when something waits.
func (f *fair[T]) Pop() T {
	item, _ := f.popFrom(func(string) bool { return true })
	return item
}

// popFrom returns what waits in the first namespace that may have its turn, false if there is none.
func (f *fair[T]) popFrom(may func(namespace string) bool) (T, bool) {
	turn := slices.IndexFunc(f.turns, may)
	if turn < 0 {
		return *new(T), false
	}
	namespace := f.turns[turn]
	f.turns = slices.Delete(f.turns, turn, turn+1)
	items := f.waiting[namespace]
	item := items[0]
	items[0] = *new(T) // The array lives on.
	if len(items) > 1 {
		f.waiting[namespace] = items[1:]
		f.turns = append(f.turns, namespace)
	} else {
		delete(f.waiting, namespace)
	}
	f.length--
	return item, true
}

// remove takes an item back that waits.
func (f *fair[T]) remove(namespace string, is func(T) bool) {
	items := slices.DeleteFunc(f.waiting[namespace], is)
	f.length -= len(f.waiting[namespace]) - len(items)
	f.waiting[namespace] = items
	if len(items) == 0 {
		delete(f.waiting, namespace)
		f.turns = slices.DeleteFunc(f.turns, func(turn string) bool { return turn == namespace })
	}
}

// newQueue returns the queue of the controller, with turns for namespaces.
func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
		Name:  name,
		Queue: newFair(func(request reconcile.Request) string { return request.Namespace }),
	})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name:          name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue}),
	})
}

// slots limits how many jobs run at the same time. Namespaces take turns, and none gets all slots: a hundred workload
// clusters that do not answer would hold them until their timeouts.
type slots struct {
	most int // for one namespace

	mu      sync.Mutex
	free    int
	held    map[string]int
	waiting *fair[*ticket]
}

// ticket is a job that waits for a slot.
type ticket struct {
	namespace string
	granted   chan struct{}
}

func newSlots(parallel int) *slots {
	return &slots{
		most: parallel - parallel/10, free: parallel, held: map[string]int{},
		waiting: newFair(func(t *ticket) string { return t.namespace }),
	}
}

// take waits for a slot and returns false if the context ends first.
func (s *slots) take(ctx context.Context, namespace string) bool {
	t := &ticket{namespace: namespace, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting.Push(t)
	s.grant()
	s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.granted:
		s.release(namespace)
	default:
		s.waiting.remove(namespace, func(other *ticket) bool { return other == t })
	}
	return false
}

// give returns a slot.
func (s *slots) give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(namespace)
}

// release is give under the lock.
func (s *slots) release(namespace string) {
	s.free++
	if s.held[namespace]--; s.held[namespace] == 0 {
		delete(s.held, namespace)
	}
	s.grant()
}

// grant hands out free slots. The lock is held.
func (s *slots) grant() {
	for s.free > 0 {
		t, ok := s.waiting.popFrom(func(namespace string) bool { return s.held[namespace] < s.most })
		if !ok {
			return
		}
		s.free--
		s.held[t.namespace]++
		close(t.granted)
	}
}
