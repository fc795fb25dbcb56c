package simulation

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache is what a process knows of some kinds. It begins with all that is there, and learns of changes when a test
// delivers them.
type Cache struct {
	server  *Server
	follows []*follower
	view    view
	// keeps says what a cache keeps of an object, nil for nothing.
	keeps map[schema.GroupKind]func(client.Object) client.Object
}

// follower is how far a cache has come with a kind.
type follower struct {
	kind schema.GroupKind
	log  *journal
	seen int
}

func (f *follower) behind() bool { return f.seen < len(f.log.events) }

// NewCache returns a cache of kinds.
func (s *Server) NewCache(kinds ...schema.GroupKind) *Cache {
	c := &Cache{
		server: s, keeps: map[schema.GroupKind]func(client.Object) client.Object{},
		view: view{scheme: s.scheme, indexes: map[schema.GroupKind]map[string]*index{}},
	}
	for _, kind := range kinds {
		log := s.journal(kind)
		c.follows = append(c.follows, &follower{kind, log, len(log.events)})
		c.view.objects.set(kind, s.objects.copyRows(kind))
	}
	return c
}

// of returns how far the cache has come with a kind. Of one that it does not have there is nothing to see.
func (c *Cache) of(kind schema.GroupKind) *follower {
	for _, f := range c.follows {
		if f.kind == kind {
			return f
		}
	}
	return &follower{kind: kind, log: &journal{}}
}

// Rewind has a new cache begin some events ago, as that of a process does which reads from an API server that lags
// behind. It comes before Keep.
func (c *Cache) Rewind(kind schema.GroupKind, events int) {
	f := c.of(kind)
	for ; events > 0 && f.seen > 0; events-- {
		f.seen--
		event := f.log.events[f.seen]
		if event.Before == nil {
			c.view.objects.drop(event.Key)
		} else {
			c.view.objects.put(event.Key, event.Before)
		}
	}
}

// Keep says what the cache keeps of the objects of a kind, nil for nothing, as a selector and a transform do. It is
// given what the server has, and must not change it.
func (c *Cache) Keep(kind schema.GroupKind, keeps func(client.Object) client.Object) {
	c.keeps[kind] = keeps
	var rows []row
	for _, all := range c.view.objects.of(kind) {
		if kept := keeps(all.object); kept != nil {
			rows = append(rows, row{all.key, kept})
		}
	}
	c.view.objects.set(kind, rows)
}

func (c *Cache) kept(kind schema.GroupKind, object client.Object) client.Object {
	keeps := c.keeps[kind]
	if keeps == nil || object == nil {
		return object
	}
	return keeps(object)
}

// Index adds an index of a kind.
func (c *Cache) Index(object client.Object, name string, keys client.IndexerFunc) {
	kind := c.server.KeyOf(object).Kind
	if c.view.indexes[kind] == nil {
		c.view.indexes[kind] = map[string]*index{}
	}
	c.view.indexes[kind][name] = &index{keys, map[client.Object][]string{}}
}

// Behind returns the kinds of which there are events that the cache has not seen.
func (c *Cache) Behind() []schema.GroupKind {
	var behind []schema.GroupKind
	for _, f := range c.follows {
		if f.behind() {
			behind = append(behind, f.kind)
		}
	}
	return behind
}

// Next has the cache see the next event of a kind. It reports false if there is none. One that is about nothing that
// the cache keeps has neither Before nor After.
func (c *Cache) Next(kind schema.GroupKind) (Event, bool) {
	f := c.of(kind)
	if !f.behind() {
		return Event{}, false
	}
	event := f.log.events[f.seen]
	f.seen++
	if event.After = c.kept(kind, event.After); c.keeps[kind] != nil {
		event.Before = c.view.objects.get(event.Key)
	}
	if event.After == nil {
		c.view.objects.drop(event.Key)
	} else {
		c.view.objects.put(event.Key, event.After)
	}
	return event, true
}

// Relist has the cache see all events of a kind at once, as after a gap in its watch: of each object it learns what has
// become of it, and not that it was deleted and created again meanwhile.
func (c *Cache) Relist(kind schema.GroupKind) []Event {
	before := tables{{kind, c.view.objects.copyRows(kind)}}
	for more := true; more; {
		_, more = c.Next(kind)
	}
	var events []Event
	for _, was := range before.of(kind) {
		if after := c.view.objects.get(was.key); after == nil || after.GetResourceVersion() != was.object.GetResourceVersion() {
			events = append(events, Event{Key: was.key, Before: was.object, After: after})
		}
	}
	for _, is := range c.view.objects.of(kind) {
		if before.get(is.key) == nil {
			events = append(events, Event{Key: is.key, After: is.object})
		}
	}
	return events
}

// All are events of creation, one for each object that the cache has, as a watch begins with them.
func (c *Cache) All() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, f := range c.follows {
			for _, is := range c.view.objects.of(f.kind) {
				if !yield(Event{Key: is.key, After: is.object}) {
					return
				}
			}
		}
	}
}

// Peek returns what the cache has, nil if it has nothing. It must not be changed.
func (c *Cache) Peek(key Key) client.Object { return c.view.objects.get(key) }

// Snapshot returns the objects of a kind that the cache has. They must not be changed.
func (c *Cache) Snapshot(kind schema.GroupKind) []client.Object {
	var objects []client.Object
	for _, is := range c.view.objects.of(kind) {
		objects = append(objects, is.object)
	}
	return objects
}

// Get implements client.Reader.
func (c *Cache) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	key := c.server.KeyOf(into)
	key.NamespacedName = name
	return c.view.get(key, into)
}

// List implements client.Reader.
func (c *Cache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.view.list(kindOfList(c.server.scheme, list), list, opts...)
}
