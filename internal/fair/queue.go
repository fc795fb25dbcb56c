// Package fair has the queue of controllers in which namespaces take turns, so that a tenant with thousands of objects
// delays another tenant by one of them.
package fair

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns hands out what waits in many namespaces by turns, and what waits in one namespace in the order in which it
// came. A namespace that has its share has no turn until some of it is done. It implements workqueue.Queue.
type turns struct {
	most int // of a namespace at the same time

	mu      sync.Mutex // The workqueue has a lock of its own, without which it is told what is done.
	waiting map[string][]reconcile.Request
	// order are the namespaces in which something waits that may be handed out; the next one is first.
	order []string
	// held is how much of a namespace was handed out and is not done.
	held map[string]int
}

func newTurns(most int) *turns {
	return &turns{most: most, waiting: map[string][]reconcile.Request{}, held: map[string]int{}}
}

// Touch implements workqueue.Queue. What is added again keeps its place.
func (*turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (t *turns) Push(request reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	namespace := request.Namespace
	t.waiting[namespace] = append(t.waiting[namespace], request)
	if len(t.waiting[namespace]) == 1 {
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
	request := t.waiting[namespace][0]
	if t.waiting[namespace] = t.waiting[namespace][1:]; len(t.waiting[namespace]) == 0 {
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
	if len(t.waiting[namespace]) > 0 && t.held[namespace] < t.most {
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
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		turns := newTurns(most)
		waiting := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: turns})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
				Name: name, Queue: queue{waiting, turns},
			}),
		})
	}
}
