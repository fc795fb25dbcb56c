package importer

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Backoff of a cluster whose reconcile failed. Unlike the default there is no common bucket: one
// cluster's failures never slow down another.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// fair hands out what waits in many namespaces by turns, and what waits in one namespace in the order in which it came:
// a tenant with hundreds of clusters delays another one by a cluster, not by hundreds. A namespace that has its share
// has no turn until some of it is done. It implements workqueue.Queue.
type fair struct {
	most int // of a namespace at the same time

	mu      sync.Mutex // The workqueue has a lock of its own, without which it is told what is done.
	waiting map[string][]reconcile.Request
	// turns are the namespaces in which something waits that may be handed out; the next one is first.
	turns []string
	// held is how much of a namespace was handed out and is not done.
	held map[string]int
}

func newFair(most int) *fair {
	return &fair{most: most, waiting: map[string][]reconcile.Request{}, held: map[string]int{}}
}

// Touch implements workqueue.Queue. What is added again keeps its place.
func (*fair) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (f *fair) Push(request reconcile.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	namespace := request.Namespace
	f.waiting[namespace] = append(f.waiting[namespace], request)
	if len(f.waiting[namespace]) == 1 {
		f.turn(namespace)
	}
}

// Len implements workqueue.Queue, which asks whether there is anything to hand out: what waits for others of
// its namespace does not count.
func (f *fair) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.turns)
}

// Pop implements workqueue.Queue. It is called only when there is something to hand out.
func (f *fair) Pop() reconcile.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	namespace := f.turns[0]
	f.turns = f.turns[1:]
	request := f.waiting[namespace][0]
	if f.waiting[namespace] = f.waiting[namespace][1:]; len(f.waiting[namespace]) == 0 {
		delete(f.waiting, namespace)
	}
	f.held[namespace]++
	f.turn(namespace)
	return request
}

// done takes note that something of a namespace is done. Whoever has done it asks for more, so nobody else
// has to be told that there is.
func (f *fair) done(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[namespace]--; f.held[namespace] == f.most-1 {
		f.turn(namespace)
	}
	if f.held[namespace] == 0 {
		delete(f.held, namespace)
	}
}

// turn gives a namespace its next turn, if something waits in it and it does not have its share. The lock is held.
func (f *fair) turn(namespace string) {
	if len(f.waiting[namespace]) > 0 && f.held[namespace] < f.most {
		f.turns = append(f.turns, namespace)
	}
}

// fairQueue is a workqueue that tells what is done in it.
type fairQueue struct {
	workqueue.TypedInterface[reconcile.Request]
	fair *fair
}

// Done implements workqueue.TypedInterface.
func (q fairQueue) Done(request reconcile.Request) {
	q.fair.done(request.Namespace)
	q.TypedInterface.Done(request)
}

// newQueue returns what builds the queue of a controller in which namespaces take turns, with so many requests of
// one at the same time at most.
func newQueue(most int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		fair := newFair(most)
		queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: fair})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
				Name: name, Queue: fairQueue{queue, fair},
			}),
		})
	}
}
