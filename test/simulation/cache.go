package simulation

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache is what a process knows of some kinds. It begins with all that is there, and learns of changes when a test
// delivers them.
type Cache struct {
	server *Server
	kinds  []schema.GroupKind
	seen   map[schema.GroupKind]int
	view   view
	// keeps says what a cache keeps of an object, nil for nothing.
	keeps map[schema.GroupKind]func(client.Object) client.Object
}

// NewCache returns a cache of kinds.
func (s *Server) NewCache(kinds ...schema.GroupKind) *Cache {
	c := &Cache{
		server: s, kinds: kinds, seen: map[schema.GroupKind]int{}, keeps: map[schema.GroupKind]func(client.Object) client.Object{},
		view: view{
			scheme: s.scheme, objects: map[Key]client.Object{},
			indexes: map[schema.GroupKind]map[string]client.IndexerFunc{},
		},
	}
	for _, kind := range kinds {
		c.seen[kind] = len(s.log[kind])
		for _, key := range s.keys(kind) {
			c.view.objects[key] = s.objects[key]
		}
	}
	return c
}

// Rewind has a new cache begin some events ago, as that of a process does which reads from an API server that lags
// behind. It comes before Keep.
func (c *Cache) Rewind(kind schema.GroupKind, events int) {
	for ; events > 0 && c.seen[kind] > 0; events-- {
		c.seen[kind]--
		event := c.server.log[kind][c.seen[kind]]
		if event.Before == nil {
			delete(c.view.objects, event.Key)
		} else {
			c.view.objects[event.Key] = event.Before
		}
	}
}

// Keep says what the cache keeps of the objects of a kind, nil for nothing, as a selector and a transform do. It is given
// a copy.
func (c *Cache) Keep(kind schema.GroupKind, keeps func(client.Object) client.Object) {
	c.keeps[kind] = keeps
	for _, key := range keysOf(c.view.objects, kind) {
		if kept := c.kept(kind, c.view.objects[key]); kept != nil {
			c.view.objects[key] = kept
		} else {
			delete(c.view.objects, key)
		}
	}
}

func (c *Cache) kept(kind schema.GroupKind, object client.Object) client.Object {
	keeps := c.keeps[kind]
	if keeps == nil || object == nil {
		return object
	}
	return keeps(copyOf(object))
}

// Index adds an index of a kind.
func (c *Cache) Index(object client.Object, name string, keys client.IndexerFunc) {
	kind := c.server.KeyOf(object).Kind
	if c.view.indexes[kind] == nil {
		c.view.indexes[kind] = map[string]client.IndexerFunc{}
	}
	c.view.indexes[kind][name] = keys
}

// Behind returns the kinds of which there are events that the cache has not seen.
func (c *Cache) Behind() []schema.GroupKind {
	var behind []schema.GroupKind
	for _, kind := range c.kinds {
		if c.seen[kind] < len(c.server.log[kind]) {
			behind = append(behind, kind)
		}
	}
	return behind
}

// Next has the cache see the next event of a kind. It reports false if there is none. One that is about nothing that
// the cache keeps has neither Before nor After.
func (c *Cache) Next(kind schema.GroupKind) (Event, bool) {
	log := c.server.log[kind]
	if c.seen[kind] >= len(log) {
		return Event{}, false
	}
	event := log[c.seen[kind]]
	c.seen[kind]++
	if event.After = c.kept(kind, event.After); c.keeps[kind] != nil {
		event.Before = c.view.objects[event.Key]
	}
	if event.After == nil {
		delete(c.view.objects, event.Key)
	} else {
		c.view.objects[event.Key] = event.After
	}
	return event, true
}

// Relist has the cache see all events of a kind at once, as after a gap in its watch: of each object it learns what has
// become of it, and not that it was deleted and created again meanwhile.
func (c *Cache) Relist(kind schema.GroupKind) []Event {
	before := map[Key]client.Object{}
	for _, key := range keysOf(c.view.objects, kind) {
		before[key] = c.view.objects[key]
	}
	for more := true; more; {
		_, more = c.Next(kind)
	}
	var events []Event
	for _, key := range slices.SortedFunc(maps.Keys(before), compareKeys) {
		if after := c.view.objects[key]; after == nil || after.GetResourceVersion() != before[key].GetResourceVersion() {
			events = append(events, Event{Key: key, Before: before[key], After: after})
		}
	}
	for _, key := range keysOf(c.view.objects, kind) {
		if before[key] == nil {
			events = append(events, Event{Key: key, After: c.view.objects[key]})
		}
	}
	return events
}

// All returns an event of creation for each object that the cache has, as a watch begins with them.
func (c *Cache) All() []Event {
	var events []Event
	for _, kind := range c.kinds {
		for _, key := range keysOf(c.view.objects, kind) {
			events = append(events, Event{Key: key, After: c.view.objects[key]})
		}
	}
	return events
}

// Snapshot returns the objects that the cache has. They must not be changed.
func (c *Cache) Snapshot() map[Key]client.Object { return maps.Clone(c.view.objects) }

// Get implements client.Reader.
func (c *Cache) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	key := c.server.KeyOf(into)
	key.NamespacedName = name
	return c.view.get(key, into)
}

// List implements client.Reader.
func (c *Cache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := kindOfList(c.server.scheme, list)
	if err != nil {
		return err
	}
	return c.view.list(kind, list, opts...)
}
