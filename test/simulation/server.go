package simulation

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Key names an object.
type Key struct {
	Kind schema.GroupKind
	types.NamespacedName
}

// String returns the key for people.
func (k Key) String() string { return k.Kind.Kind + " " + k.NamespacedName.String() }

// resource is what errors name. Nobody reads more than that from it.
func (k Key) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Kind.Group, Resource: k.Kind.Kind}
}

// Event is a change of one object. Before is nil when it was created, After when it was deleted.
type Event struct {
	Key           Key
	Before, After client.Object
}

// Write is a request that changed something, or tried to.
type Write struct {
	Verb   string
	Key    Key
	Status bool
}

// Server has objects, and a log of all their changes.
type Server struct {
	// Writes are those of clients, not what a test does to objects directly.
	Writes []Write
	// Now is the time at which objects are created and deleted. Optional: they have no creation time then.
	Now func() time.Time

	scheme  *runtime.Scheme
	objects tables
	log     map[schema.GroupKind]*journal
	// owners are the conditions that a field manager has applied, by object and manager.
	owners  map[Key]map[string][]string
	version int
	uid     int
}

// journal has all changes of the objects of a kind.
type journal struct{ events []Event }

// NewServer returns a server without objects.
func NewServer(scheme *runtime.Scheme) *Server {
	return &Server{
		scheme: scheme, log: map[schema.GroupKind]*journal{},
		owners: map[Key]map[string][]string{},
	}
}

// Clone returns a server that is as this one is now, and goes on by itself. Whoever has its time sets that anew.
func (s *Server) Clone() *Server {
	c := &Server{
		scheme: s.scheme, log: map[schema.GroupKind]*journal{}, owners: map[Key]map[string][]string{},
		version: s.version, uid: s.uid,
	}
	for _, of := range s.objects {
		c.objects.set(of.kind, slices.Clone(of.rows))
	}
	for kind, log := range s.log {
		c.log[kind] = &journal{events: slices.Clip(log.events)}
	}
	for key, owners := range s.owners {
		c.owners[key] = maps.Clone(owners)
	}
	return c
}

// Version is that of the last change.
func (s *Server) Version() int { return s.version }

// KeyOf returns the key of an object.
func (s *Server) KeyOf(object client.Object) Key {
	return Key{kindOf(s.scheme, object), client.ObjectKeyFromObject(object)}
}

// Get returns a copy of what is there, nil if nothing is.
func (s *Server) Get(key Key) client.Object {
	if object := s.objects.get(key); object != nil {
		return copyOf(object)
	}
	return nil
}

// Peek returns what is there, nil if nothing is. It must not be changed.
func (s *Server) Peek(key Key) client.Object { return s.objects.get(key) }

// Objects returns copies of all objects of a kind, in the order of their names.
func (s *Server) Objects(kind schema.GroupKind) []client.Object {
	var objects []client.Object
	for object := range s.All(kind) {
		objects = append(objects, copyOf(object))
	}
	return objects
}

// All are the objects of a kind, in the order of their names. They must not be changed.
func (s *Server) All(kind schema.GroupKind) iter.Seq[client.Object] {
	rows := s.objects.of(kind)
	return func(yield func(client.Object) bool) {
		for i := range rows {
			if !yield(rows[i].object) {
				return
			}
		}
	}
}

// journal returns that of a kind.
func (s *Server) journal(kind schema.GroupKind) *journal {
	kept := s.log[kind]
	if kept == nil {
		kept = &journal{}
		s.log[kind] = kept
	}
	return kept
}

func (s *Server) note(event Event) {
	kept := s.journal(event.Key.Kind)
	kept.events = append(kept.events, event)
}

// Put creates an object, or replaces its content whatever its version. It is for those who act beside the controller.
func (s *Server) Put(object client.Object) {
	key := s.KeyOf(object)
	after := copyOf(object)
	if before := s.objects.get(key); before != nil {
		after.SetUID(before.GetUID())
	} else {
		s.born(after)
	}
	s.store(key, after)
}

// born gives a new object what it has from the API server.
func (s *Server) born(object client.Object) {
	s.uid++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uid)))
	if s.Now != nil {
		object.SetCreationTimestamp(metav1.NewTime(s.Now()).Rfc3339Copy())
	}
}

// Restore brings an object back as it was once, UID and all, as a backup of the server does.
func (s *Server) Restore(object client.Object) {
	key := s.KeyOf(object)
	if before := s.objects.get(key); before != nil && before.GetUID() != object.GetUID() {
		s.Vanish(key)
	}
	s.store(key, copyOf(object))
}

// Vanish deletes an object whatever finalizers it has: what asked for its deletion had read it before it got them.
func (s *Server) Vanish(key Key) {
	if before := s.objects.get(key); before != nil {
		s.version++
		s.objects.drop(key)
		delete(s.owners, key)
		s.note(Event{Key: key, Before: before})
	}
}

// Remove deletes an object, if it is there. One that has finalizers stays until it has none.
func (s *Server) Remove(key Key) {
	before := s.objects.get(key)
	switch {
	case before == nil:
	case len(before.GetFinalizers()) == 0:
		s.Vanish(key)
	case before.GetDeletionTimestamp() == nil:
		after := copyOf(before)
		after.SetDeletionTimestamp(&deletionTime)
		if s.Now != nil {
			after.SetDeletionTimestamp(new(metav1.NewTime(s.Now()).Rfc3339Copy()))
		}
		s.store(key, after)
	}
}

// store replaces an object. One that is being deleted and has no finalizers any more goes.
func (s *Server) store(key Key, after client.Object) {
	s.version++
	after.SetResourceVersion(strconv.Itoa(s.version))
	before := s.objects.get(key)
	s.objects.put(key, after)
	s.note(Event{Key: key, Before: before, After: after})
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		s.Remove(key)
	}
}

// create stores an object that must not be there yet.
func (s *Server) create(key Key, object client.Object) (client.Object, error) {
	if s.objects.get(key) != nil {
		return nil, apierrors.NewAlreadyExists(key.resource(), key.Name)
	}
	after, err := s.typed(object)
	if err != nil {
		return nil, err
	}
	s.born(after)
	s.store(key, after)
	return copyOf(after), nil
}

// typed returns a copy of an object in the type that the scheme has for its kind, if it has one.
func (s *Server) typed(object client.Object) (client.Object, error) {
	content, ok := object.(*unstructured.Unstructured)
	if !ok || !s.scheme.Recognizes(content.GroupVersionKind()) {
		return copyOf(object), nil
	}
	created, err := s.scheme.New(content.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, created)
	created.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	typed, _ := created.(client.Object)
	return typed, err
}

// remove deletes an object if it is what the preconditions say.
func (s *Server) remove(key Key, uid *types.UID, version *string) error {
	before := s.objects.get(key)
	switch {
	case before == nil:
		return apierrors.NewNotFound(key.resource(), key.Name)
	case uid != nil && *uid != before.GetUID(), version != nil && *version != before.GetResourceVersion():
		return apierrors.NewConflict(key.resource(), key.Name, errStale)
	}
	s.Remove(key)
	return nil
}
