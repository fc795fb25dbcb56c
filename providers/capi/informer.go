package capi

import (
	"context"
	"errors"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// informer is one that is there before the cluster has said whether it has the kind. Handlers are kept until then.
type informer struct {
	name string

	mu       sync.Mutex
	real     crcache.Informer
	handlers map[*registration]struct{}
	indexers toolscache.Indexers
	synced   *checker
	dropped  chan struct{}
}

func newInformer(name string) *informer {
	return &informer{
		name: name, handlers: map[*registration]struct{}{}, indexers: toolscache.Indexers{},
		synced: newChecker(name), dropped: make(chan struct{}),
	}
}

// registration is a handler, and where it is registered.
type registration struct {
	handler toolscache.ResourceEventHandler
	options toolscache.HandlerOptions
	real    toolscache.ResourceEventHandlerRegistration
	synced  *checker
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return toolscache.IsDone(r.synced) }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r.synced }

// checker is done when what it follows is done.
type checker struct {
	name string
	done chan struct{}
}

func newChecker(name string) *checker { return &checker{name: name, done: make(chan struct{})} }

// Name implements toolscache.DoneChecker.
func (c *checker) Name() string { return c.name }

// Done implements toolscache.DoneChecker.
func (c *checker) Done() <-chan struct{} { return c.done }

func (c *checker) follow(ctx context.Context, other toolscache.DoneChecker) {
	go func() {
		select {
		case <-other.Done():
			close(c.done)
		case <-ctx.Done():
		}
	}()
}

// fill puts the informer of the cluster behind it.
func (i *informer) fill(ctx context.Context, with crcache.Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.dropped:
		return
	default:
	}
	i.real = with
	i.synced.follow(ctx, with.HasSyncedChecker())
	// They fail for an informer that is stopped, as the cluster is then.
	_ = with.AddIndexers(i.indexers)
	for r := range i.handlers {
		if i.attach(r) == nil {
			r.synced.follow(ctx, r.real.HasSyncedChecker())
		}
	}
}

func (i *informer) attach(r *registration) error {
	var err error
	r.real, err = i.real.AddEventHandlerWithOptions(r.handler, r.options)
	return err
}

// drop has it be filled no more.
func (i *informer) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.dropped:
	default:
		close(i.dropped)
	}
}

// AddEventHandler implements crcache.Informer.
func (i *informer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements crcache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements crcache.Informer.
func (i *informer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.real != nil {
		return i.real.AddEventHandlerWithOptions(handler, options)
	}
	r := &registration{handler: handler, options: options, synced: newChecker(i.name)}
	i.handlers[r] = struct{}{}
	return r, nil
}

// RemoveEventHandler implements crcache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r, ok := handle.(*registration); ok {
		delete(i.handlers, r)
		if r.real == nil {
			return nil
		}
		handle = r.real
	}
	if i.real == nil {
		return errors.New("the handler is not one of this informer")
	}
	return i.real.RemoveEventHandler(handle)
}

// AddIndexers implements crcache.Informer.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.real != nil {
		return i.real.AddIndexers(indexers)
	}
	for name, index := range indexers {
		if _, ok := i.indexers[name]; ok {
			return errors.New("index " + name + " is there already")
		}
		i.indexers[name] = index
	}
	return nil
}

// HasSynced implements crcache.Informer.
func (i *informer) HasSynced() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.real != nil && i.real.HasSynced()
}

// HasSyncedChecker implements crcache.Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i.synced }

// IsStopped implements crcache.Informer.
func (i *informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.real != nil && i.real.IsStopped()
}
