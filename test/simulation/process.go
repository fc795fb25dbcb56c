package simulation

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Watch wakes a controller.
type Watch struct {
	Kind     schema.GroupKind
	Metadata bool
	Requests handler.MapFunc
	Admits   predicate.Predicate
}

// Process is one life of a controller: its caches, its queue and what wakes it.
type Process struct {
	// Cache is what its controller reads.
	Cache *Cache
	// Reconciler is the controller.
	Reconciler reconcile.Reconciler
	// Watches are its own.
	Watches []Watch

	// queue is in the order of arrival.
	queue   []reconcile.Request
	delayed map[reconcile.Request]time.Duration
}

// Start enqueues what watches begin with.
func (p *Process) Start(ctx context.Context) {
	p.delayed = map[reconcile.Request]time.Duration{}
	for e := range p.Cache.All() {
		p.wake(ctx, e)
	}
}

// Deliver has the cache see the next event of a kind and enqueues what it wakes. It reports false if there is none.
func (p *Process) Deliver(ctx context.Context, kind schema.GroupKind) bool {
	e, ok := p.Cache.Next(kind)
	if ok {
		p.wake(ctx, e)
	}
	return ok
}

// Relist has the cache see all events of a kind at once, and enqueues what they wake.
func (p *Process) Relist(ctx context.Context, kind schema.GroupKind) {
	for _, e := range p.Cache.Relist(kind) {
		p.wake(ctx, e)
	}
}

func (p *Process) wake(ctx context.Context, e Event) {
	if e.Before == nil && e.After == nil {
		return
	}
	var metadata *Event // of which all watches see the same
	for i := range p.Watches {
		watch := &p.Watches[i]
		if watch.Kind != e.Key.Kind {
			continue
		}
		seen := e
		if watch.Metadata {
			if metadata == nil {
				metadata = new(e.AsMetadata())
			}
			seen = *metadata
		}
		if !watch.admits(seen) {
			continue
		}
		if seen.Before != nil {
			p.enqueue(watch.Requests(ctx, seen.Before)...)
		}
		if seen.After != nil {
			p.enqueue(watch.Requests(ctx, seen.After)...)
		}
	}
}

// admits reports whether the watch passes on an event.
func (w *Watch) admits(e Event) bool {
	switch {
	case w.Admits == nil:
		return true
	case e.Before == nil:
		return w.Admits.Create(event.CreateEvent{Object: e.After})
	case e.After == nil:
		return w.Admits.Delete(event.DeleteEvent{Object: e.Before})
	default:
		return w.Admits.Update(event.UpdateEvent{ObjectOld: e.Before, ObjectNew: e.After})
	}
}

// Wake enqueues requests that no watch of the process leads to.
func (p *Process) Wake(requests ...reconcile.Request) { p.enqueue(requests...) }

func (p *Process) enqueue(requests ...reconcile.Request) {
	for _, request := range requests {
		known := false
		for _, queued := range p.queue {
			known = known || queued == request
		}
		if !known {
			p.queue = append(p.queue, request)
		}
	}
}

// Queued returns how many requests wait.
func (p *Process) Queued() int { return len(p.queue) }

// Place returns the place of a request in the queue, -1 if it does not wait.
func (p *Process) Place(request reconcile.Request) int { return slices.Index(p.queue, request) }

// Work reconciles the n-th request that waits. It reports whether the process lives on: a crash ends it in the middle.
// An error or a delay puts the request back.
func (p *Process) Work(ctx context.Context, n int) (lives bool, err error) {
	request := p.queue[n]
	p.queue = append(p.queue[:n:n], p.queue[n+1:]...)
	defer func() {
		if cause := recover(); cause != nil {
			if _, crashed := cause.(Crash); !crashed {
				panic(cause)
			}
			lives = false
		}
	}()
	result, err := p.Reconciler.Reconcile(ctx, request)
	switch {
	case err != nil:
		p.enqueue(request)
	case result.RequeueAfter > 0:
		p.delayed[request] = result.RequeueAfter
	}
	return true, err
}

// Later enqueues what waits for time to pass, and reports how much that was.
func (p *Process) Later() int {
	for request := range p.delayed {
		p.enqueue(request)
	}
	passed := len(p.delayed)
	p.delayed = map[reconcile.Request]time.Duration{}
	return passed
}

// Settle delivers all events and works on all requests until there are none, or until the steps are used up, which it
// reports as false.
func (p *Process) Settle(ctx context.Context, steps int) bool {
	for ; steps > 0; steps-- {
		behind := p.Cache.Behind()
		switch {
		case len(behind) > 0:
			p.Deliver(ctx, behind[0])
		case len(p.queue) > 0:
			if lives, _ := p.Work(ctx, 0); !lives {
				return false
			}
		default:
			return true
		}
	}
	return false
}
