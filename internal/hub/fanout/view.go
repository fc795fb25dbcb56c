package fanout

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// View is what a management cluster has of a shared cache. It is a cache itself. Its handlers are told of events
// by Start, in their order, and of no more when that has returned: what one of them takes long for is late for
// no other management cluster.
type View struct {
	fan    *Fanout
	origin types.UID

	// handlers and ended are guarded by the mutex of the Fanout.
	handlers map[schema.GroupVersionKind][]*registration
	ended    bool

	mu      sync.Mutex
	pending []func()
	more    chan struct{}
}

var _ cache.Cache = &View{}

// View returns what a management cluster has of the cache. It has to be started.
func (f *Fanout) View(origin types.UID) *View {
	return &View{fan: f, origin: origin, handlers: map[schema.GroupVersionKind][]*registration{}, more: make(chan struct{}, 1)}
}

// Start implements cache.Cache. When the context ends the view leaves nothing behind.
func (v *View) Start(ctx context.Context) error {
	defer v.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.more:
		}
		v.mu.Lock()
		events := v.pending
		v.pending = nil
		v.mu.Unlock()
		for _, event := range events {
			if ctx.Err() == nil {
				event()
			}
		}
	}
}

func (v *View) end() {
	v.fan.mu.Lock()
	defer v.fan.mu.Unlock()
	v.ended, v.handlers = true, nil
	delete(v.fan.views[v.origin], v)
	if len(v.fan.views[v.origin]) == 0 {
		delete(v.fan.views, v.origin)
	}
}

// later has Start do something. It never waits.
func (v *View) later(event func()) {
	v.mu.Lock()
	v.pending = append(v.pending, event)
	v.mu.Unlock()
	select {
	case v.more <- struct{}{}:
	default:
	}
}

// WaitForCacheSync implements cache.Cache.
func (v *View) WaitForCacheSync(ctx context.Context) bool { return v.fan.cache.WaitForCacheSync(ctx) }

// Get implements client.Reader.
func (v *View) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	gvk, kind, err := v.fan.kindOf(object)
	if err != nil {
		return err
	}
	if err := v.fan.cache.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if kind.Apart && kind.Of(ctx, object) != v.origin {
		reflect.ValueOf(object).Elem().SetZero()
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name) // As a cache says it.
	}
	return nil
}

// List implements client.Reader.
func (v *View) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := v.fan.kindOfList(list)
	if err != nil {
		return err
	}
	if !kind.Apart {
		return v.fan.cache.List(ctx, list, options...)
	}
	wanted := &client.ListOptions{}
	wanted.ApplyOptions(options)
	selected := fields.OneTermEqualSelector(originIndex, string(v.origin))
	if wanted.FieldSelector != nil && !wanted.FieldSelector.Empty() {
		by := wanted.FieldSelector.Requirements()
		if len(by) != 1 {
			return errors.New("what is apart is selected by one field")
		}
		selected = fields.OneTermEqualSelector(by[0].Field, ownValue(v.origin, by[0].Value))
	}
	wanted.FieldSelector = selected
	return v.fan.cache.List(ctx, list, wanted)
}

// kindOfList returns a kind that is shared.
func (f *Fanout) kindOfList(list runtime.Object) (Kind, error) {
	gvk, err := apiutil.GVKForObject(list, f.scheme)
	if err != nil {
		return Kind{}, err
	}
	for shared, kind := range f.kinds {
		if shared.GroupVersion() == gvk.GroupVersion() && shared.Kind+"List" == gvk.Kind {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("%s is not shared by management clusters", gvk)
}

// IndexField implements client.FieldIndexer. All views have to index alike.
func (v *View) IndexField(ctx context.Context, object client.Object, field string, values client.IndexerFunc) error {
	return v.fan.index(context.WithoutCancel(ctx), object, field, values)
}

// GetInformer implements cache.Cache.
func (v *View) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	gvk, kind, err := v.fan.kindOf(object)
	if err != nil {
		return nil, err
	}
	shared, err := v.fan.cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, err
	}
	return &informer{Informer: shared, view: v, gvk: gvk, kind: kind}, nil
}

// GetInformerForKind implements cache.Cache.
func (v *View) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	kind, ok := v.fan.kinds[gvk]
	if !ok {
		return nil, fmt.Errorf("%s is not shared by management clusters", gvk)
	}
	return v.GetInformer(ctx, kind.Object, options...)
}

// RemoveInformer implements cache.Cache. It is refused: others need it.
func (*View) RemoveInformer(context.Context, client.Object) error {
	return errors.New("the informers of a shared cache stay")
}

// informer is a shared one whose handlers are those of a view.
type informer struct {
	cache.Informer

	view *View
	gvk  schema.GroupVersionKind
	kind Kind
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer. The period is that of the cache.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements cache.Informer. The handler is told first of what is apart and there already.
// Of other kinds it is not: whoever adds one has yet to look at everything.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registration{ResourceEventHandler: handler, name: i.gvk.String(), done: make(chan struct{})}
	if err := i.view.add(i.gvk, r); err != nil {
		return nil, err
	}
	if i.kind.Apart {
		if err := i.replay(handler); err != nil {
			return nil, errors.Join(err, i.RemoveEventHandler(r))
		}
	}
	i.view.later(func() { close(r.done) })
	return r, nil
}

// replay tells a handler of what is there. An event that comes meanwhile may be told before.
func (i *informer) replay(handler toolscache.ResourceEventHandler) error {
	object, err := i.view.fan.scheme.New(i.gvk.GroupVersion().WithKind(i.gvk.Kind + "List"))
	list, ok := object.(client.ObjectList)
	if err != nil || !ok {
		return errors.Join(fmt.Errorf("%s has no list", i.gvk), err)
	}
	if err := i.view.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // It is synced, so it does not wait.
		return fmt.Errorf("listing %s: %w", i.gvk.Kind, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		i.view.later(func() { handler.OnAdd(item, true) })
		return nil
	})
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.view.fan.mu.Lock()
	defer i.view.fan.mu.Unlock()
	for gvk, all := range i.view.handlers {
		i.view.handlers[gvk] = slices.DeleteFunc(all, func(r *registration) bool { return handle == r })
	}
	return nil
}

// add has a handler told of events from now on.
func (v *View) add(gvk schema.GroupVersionKind, r *registration) error {
	v.fan.mu.Lock()
	defer v.fan.mu.Unlock()
	if v.ended {
		return errors.New("the import from the management cluster has ended")
	}
	v.handlers[gvk] = append(v.handlers[gvk], r)
	if v.fan.views[v.origin] == nil {
		v.fan.views[v.origin] = map[*View]struct{}{}
	}
	v.fan.views[v.origin][v] = struct{}{}
	return nil
}

// registration is a handler of a view.
type registration struct {
	toolscache.ResourceEventHandler

	name string
	done chan struct{} // closed when it was told of what was there first
}

// HasSynced implements ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return toolscache.IsDone(r) }

// HasSyncedChecker implements ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r }

// Name implements DoneChecker.
func (r *registration) Name() string { return r.name }

// Done implements DoneChecker.
func (r *registration) Done() <-chan struct{} { return r.done }
