package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Kind is a kind that a cache holds for all management clusters.
type Kind struct {
	// Object is of the kind, in the form in which it is in the cache.
	Object client.Object
	// Of returns the management cluster that an object concerns, empty for none. It must not wait. Without it an
	// object concerns all of them.
	Of func(ctx context.Context, object client.Object) types.UID
	// Apart hides the objects of one management cluster from all others.
	Apart bool
	// Matters reports whether a change concerns anybody. Without it each does.
	Matters func(before, after client.Object) bool
}

// Fanout is one cache for many management clusters.
type Fanout struct {
	cache  cache.Cache
	scheme *runtime.Scheme
	kinds  map[schema.GroupVersionKind]Kind

	indexing sync.Mutex
	indexed  map[string]bool

	mu    sync.RWMutex
	views map[types.UID]map[*View]struct{}
}

// originIndex finds the objects of a management cluster, of kinds that are apart.
const originIndex = "archelon.io/origin"

// New shares a cache, of which these kinds are read. It adds one handler for each of them, until the context
// ends, and waits for nothing.
func New(ctx context.Context, of cache.Cache, scheme *runtime.Scheme, kinds ...Kind) (*Fanout, error) {
	f := &Fanout{
		cache: of, scheme: scheme, kinds: map[schema.GroupVersionKind]Kind{}, indexed: map[string]bool{}, views: map[types.UID]map[*View]struct{}{},
	}
	for _, kind := range kinds {
		if kind.Apart && kind.Of == nil {
			return nil, errors.New("what is apart needs to be known by its management cluster")
		}
		gvk, err := apiutil.GVKForObject(kind.Object, scheme)
		if err != nil {
			return nil, fmt.Errorf("naming a shared kind: %w", err)
		}
		f.kinds[gvk] = kind
		if kind.Apart {
			if err := of.IndexField(ctx, kind.Object, originIndex, func(object client.Object) []string { return []string{string(kind.Of(ctx, object))} }); err != nil {
				return nil, fmt.Errorf("indexing %s by management cluster: %w", gvk.Kind, err)
			}
		}
		informer, err := of.GetInformer(ctx, kind.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("sharing %s: %w", gvk.Kind, err)
		}
		if _, err := informer.AddEventHandler(&route{ctx: ctx, fan: f, gvk: gvk, kind: kind}); err != nil {
			return nil, fmt.Errorf("sharing %s: %w", gvk.Kind, err)
		}
	}
	return f, nil
}

// kindOf returns a kind that is shared.
func (f *Fanout) kindOf(object runtime.Object) (schema.GroupVersionKind, Kind, error) {
	gvk, err := apiutil.GVKForObject(object, f.scheme)
	if err != nil {
		return gvk, Kind{}, err
	}
	kind, ok := f.kinds[gvk]
	if !ok {
		return gvk, Kind{}, fmt.Errorf("%s is not shared by management clusters", gvk)
	}
	return gvk, kind, nil
}

// index adds an index for all management clusters. They index alike, so the first one does it for all.
func (f *Fanout) index(ctx context.Context, object client.Object, field string, values client.IndexerFunc) error {
	gvk, kind, err := f.kindOf(object)
	if err != nil {
		return err
	}
	f.indexing.Lock()
	defer f.indexing.Unlock()
	name := gvk.String() + "/" + field
	if f.indexed[name] {
		return nil
	}
	if all := values; kind.Apart {
		values = func(object client.Object) []string {
			origin, found := kind.Of(ctx, object), all(object)
			own := make([]string, 0, len(found))
			for _, value := range found {
				own = append(own, ownValue(origin, value))
			}
			return own
		}
	}
	if err := f.cache.IndexField(ctx, object, field, values); err != nil {
		return err
	}
	f.indexed[name] = true
	return nil
}

// ownValue is that of an index of what is apart.
func ownValue(origin types.UID, value string) string { return string(origin) + "/" + value }

// Handlers returns how many handlers of management clusters are told of events.
func (f *Fanout) Handlers() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	count := 0
	for _, views := range f.views {
		for v := range views {
			for _, handlers := range v.handlers {
				count += len(handlers)
			}
		}
	}
	return count
}

// route is the one handler of a kind.
type route struct {
	ctx  context.Context //nolint:containedctx // handlers are given none
	fan  *Fanout
	gvk  schema.GroupVersionKind
	kind Kind
}

// OnAdd implements ResourceEventHandler.
func (r *route) OnAdd(object any, initial bool) {
	r.tell(object, func(h toolscache.ResourceEventHandler) { h.OnAdd(object, initial) })
}

// OnUpdate implements ResourceEventHandler. An object that goes from one management cluster to another vanishes
// from the view of the first one.
func (r *route) OnUpdate(before, after any) {
	old, ok := before.(client.Object)
	object, ok2 := after.(client.Object)
	if !ok || !ok2 || r.kind.Matters != nil && !r.kind.Matters(old, object) {
		return
	}
	if r.kind.Apart && r.kind.Of(r.ctx, old) != r.kind.Of(r.ctx, object) {
		r.tell(before, func(h toolscache.ResourceEventHandler) { h.OnDelete(before) })
		r.tell(after, func(h toolscache.ResourceEventHandler) { h.OnAdd(after, false) })
		return
	}
	r.tell(after, func(h toolscache.ResourceEventHandler) { h.OnUpdate(before, after) })
}

// OnDelete implements ResourceEventHandler.
func (r *route) OnDelete(object any) {
	r.tell(object, func(h toolscache.ResourceEventHandler) { h.OnDelete(object) })
}

// tell passes an event on to the views that it concerns.
func (r *route) tell(about any, event func(toolscache.ResourceEventHandler)) {
	if unknown, ok := about.(toolscache.DeletedFinalStateUnknown); ok {
		about = unknown.Obj
	}
	object, ok := about.(client.Object)
	if !ok {
		return
	}
	if r.kind.Of == nil {
		r.fan.mu.RLock()
		defer r.fan.mu.RUnlock()
		for _, views := range r.fan.views {
			tellAll(views, r.gvk, event)
		}
		return
	}
	origin := r.kind.Of(r.ctx, object) // It may read from a cache.
	r.fan.mu.RLock()
	defer r.fan.mu.RUnlock()
	tellAll(r.fan.views[origin], r.gvk, event)
}

func tellAll(views map[*View]struct{}, gvk schema.GroupVersionKind, event func(toolscache.ResourceEventHandler)) {
	for v := range views {
		for _, handler := range v.handlers[gvk] {
			v.later(func() { event(handler) })
		}
	}
}
