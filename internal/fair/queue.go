// Package fair has the queue of controllers in which namespaces take turns, so that a tenant with thousands of objects
// delays another tenant by one of them.
package fair

import (
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns hands out what waits in many namespaces by turns, and what waits in one namespace in the order in which it
// came, but for what goes first there. A namespace that has its share has no turn until some of it is done. It
// implements workqueue.Queue.
type turns struct {
	most int // of a namespace at the same time
	// first reports what goes before the rest of its namespace, nil for nothing.
	first func(reconcile.Request) bool
	// ahead is how much waits that goes first, and drained is called when that is nothing any more.
	ahead   atomic.Int64
	drained func()

	mu      sync.Mutex // The workqueue has a lock of its own, without which it is told what is done.
	waiting map[string]line
	// order are the namespaces in which something waits that may be handed out; the next one is first.
	order []string
	// held is how much of a namespace was handed out and is not done.
	held map[string]int
}

// line is what waits in a namespace.
type line struct{ first, rest []reconcile.Request }

func (l line) len() int { return len(l.first) + len(l.rest) }

func newTurns(most int) *turns {
	return &turns{most: most, drained: func() {}, waiting: map[string]line{}, held: map[string]int{}}
}

// Touch implements workqueue.Queue. What is added again keeps its place.
func (*turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (t *turns) Push(request reconcile.Request) {
	first := t.first != nil && t.first(request)
	t.mu.Lock()
	defer t.mu.Unlock()
	namespace := request.Namespace
	all := t.waiting[namespace]
	if first {
		all.first = append(all.first, request)
		t.ahead.Add(1)
	} else {
		all.rest = append(all.rest, request)
	}
	t.waiting[namespace] = all
	if all.len() == 1 {
		t.turn(namespace)
	}
}

// Len implements workqueue.Queue, which asks whether there is anything to hand out: what waits for others of
// its namespace does not count.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.order)
}

// Pop implements workqueue.Queue. It is called only when there is something to hand out.
func (t *turns) Pop() reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	namespace := t.order[0]
	t.order = t.order[1:]
	all := t.waiting[namespace]
	var request reconcile.Request
	if len(all.first) > 0 {
		request, all.first = all.first[0], all.first[1:]
		if t.ahead.Add(-1) == 0 {
			defer t.drained()
		}
	} else {
		request, all.rest = all.rest[0], all.rest[1:]
	}
	if t.waiting[namespace] = all; all.len() == 0 {
		delete(t.waiting, namespace)
	}
	t.held[namespace]++
	t.turn(namespace)
	return request
}

// done takes note that something of a namespace is done. Whoever has done it asks for more, so nobody else
// has to be told that there is.
func (t *turns) done(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[namespace]--; t.held[namespace] == t.most-1 {
		t.turn(namespace)
	}
	if t.held[namespace] == 0 {
		delete(t.held, namespace)
	}
}

// turn gives a namespace its next turn, if something waits in it and it does not have its share. The lock is held.
func (t *turns) turn(namespace string) {
	if t.waiting[namespace].len() > 0 && t.held[namespace] < t.most {
		t.order = append(t.order, namespace)
	}
}

// queue is a workqueue that tells what is done in it.
type queue struct {
	workqueue.TypedInterface[reconcile.Request]
	turns *turns
}

// Done implements workqueue.TypedInterface.
func (q queue) Done(request reconcile.Request) {
	q.turns.done(request.Namespace)
	q.TypedInterface.Done(request)
}

// NewQueue returns what builds the queue of a controller in which namespaces take turns, with so many requests of one
// namespace at the same time at most. It is for controller.Options.
func NewQueue(most int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return New(most, nil).Build
}

// Queue is one in which namespaces take turns, that says what waits in it.
type Queue struct{ turns *turns }

// New returns a queue with so many requests of one namespace at the same time at most. Those of which first is true
// when they are added go before the others of their namespace. It is asked with locks held, and must not use the queue.
func New(most int, first func(reconcile.Request) bool) *Queue {
	turns := newTurns(most)
	turns.first = first
	return &Queue{turns}
}

// First returns how many requests wait that go first.
func (q *Queue) First() int { return int(q.turns.ahead.Load()) }

// OnNoneFirst has a function called whenever the last request that goes first was handed out. It is called with locks
// held, and must not use the queue, but for First. It has to be set before the queue is used.
func (q *Queue) OnNoneFirst(call func()) { q.turns.drained = call }

// Build is for controller.Options. A Queue is built once.
func (q *Queue) Build(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: q.turns})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: queue{waiting, q.turns},
		}),
	})
}
