package capi

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// informer is one that is there before the cluster has said whether it has the kind. Handlers are kept until then.
type informer struct {
	kind  schema.GroupVersionKind
	since time.Time

	mu sync.Mutex
	// resource is that of the kind, once the kind was found. later are the indexes that are added then.
	resource string
	later    []index
	real     crcache.Informer
	handlers map[*registration]struct{}
	indexers toolscache.Indexers
	synced   *checker
	dropped  chan struct{}
}

func newInformer(kind schema.GroupVersionKind) *informer {
	return &informer{
		kind: kind, since: time.Now(), handlers: map[*registration]struct{}{}, indexers: toolscache.Indexers{},
		synced: newChecker(kind.Kind), dropped: make(chan struct{}),
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

// resourceName names the resource, or the kind as long as that was not found.
func (i *informer) resourceName() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return cmp.Or(i.resource, i.kind.GroupKind().String())
}

// indexLater has a field indexed as soon as the kind was found. It reports false if it was already.
func (i *informer) indexLater(field index) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.real != nil {
		return false
	}
	i.later = append(i.later, field)
	return true
}

// fill puts the informer of the cluster behind it.
func (i *informer) fill(ctx context.Context, resource string, with crcache.Informer, add func(index) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.dropped:
		return
	default:
	}
	i.real, i.resource = with, resource
	for _, field := range i.later {
		// It fails for an informer that is stopped, as the cluster is then, and for an index of the name that is there.
		_ = add(field)
	}
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
	r := &registration{handler: handler, options: options, synced: newChecker(i.kind.Kind)}
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
