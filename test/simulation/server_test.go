package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var configMaps = schema.GroupKind{Kind: "ConfigMap"}

func newServer(t *testing.T) *Server {
	t.Helper()
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return NewServer(s)
}

func configMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Data: map[string]string{"key": value},
	}
}

// A patch with a version that is not the present one is a conflict; what it was made from says which it is.
func TestOptimisticLock(t *testing.T) {
	server := newServer(t)
	server.Put(configMap("1"))
	live, found := server.Client(nil), &corev1.ConfigMap{}
	if err := live.Get(t.Context(), types.NamespacedName{Namespace: "a", Name: "one"}, found); err != nil {
		t.Fatal(err)
	}
	change := func(from *corev1.ConfigMap, value string) error {
		after := from.DeepCopy()
		after.Data["key"] = value
		return live.Patch(t.Context(), after, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
	}
	if err := change(found, "2"); err != nil {
		t.Fatal(err)
	}
	if err := change(found, "3"); !apierrors.IsConflict(err) {
		t.Errorf("an old version: got %v", err)
	}
	if got, ok := server.Get(server.KeyOf(found)).(*corev1.ConfigMap); !ok || got.Data["key"] != "2" {
		t.Errorf("got %v", got)
	}
}

func TestCacheLags(t *testing.T) {
	server := newServer(t)
	server.Put(configMap("1"))
	cache := server.NewCache(configMaps)
	server.Put(configMap("2"))
	server.Remove(server.KeyOf(configMap("")))
	seen := func() string {
		found := &corev1.ConfigMap{}
		if err := cache.Get(t.Context(), types.NamespacedName{Namespace: "a", Name: "one"}, found); err != nil {
			return string(apierrors.ReasonForError(err))
		}
		return found.Data["key"]
	}
	for _, want := range []string{"1", "2", "NotFound"} {
		if got := seen(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		cache.Next(configMaps)
	}
	if len(cache.Behind()) != 0 {
		t.Error("it is still behind")
	}
}

func TestFinalizersHold(t *testing.T) {
	server := newServer(t)
	held := configMap("1")
	held.Finalizers = []string{"example.com/held"}
	live := server.Client(nil)
	if err := live.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	other := client.Preconditions{UID: new(types.UID("other"))}
	if err := live.Delete(t.Context(), held, other); !apierrors.IsConflict(err) {
		t.Errorf("another UID: got %v", err)
	}
	if err := live.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil || held.DeletionTimestamp == nil {
		t.Fatalf("got %v, %v", held, err)
	}
	before := held.DeepCopy()
	held.Finalizers = nil
	if err := live.Patch(t.Context(), held, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if server.Get(server.KeyOf(held)) != nil {
		t.Error("it is still there")
	}
}

// After a gap, what was deleted and created again looks like something that has changed, whatever held it.
func TestRelist(t *testing.T) {
	server := newServer(t)
	held := configMap("1")
	held.Finalizers = []string{"example.com/held"}
	server.Put(held)
	cache := server.NewCache(configMaps)
	before := server.Get(server.KeyOf(held))
	server.Vanish(server.KeyOf(held))
	server.Put(configMap("2"))
	events := cache.Relist(configMaps)
	if len(events) != 1 || events[0].Before == nil || events[0].After == nil {
		t.Fatalf("got %v, want one change", events)
	}
	if events[0].Before.GetUID() != before.GetUID() || events[0].After.GetUID() == before.GetUID() {
		t.Errorf("got %s and then %s", events[0].Before.GetUID(), events[0].After.GetUID())
	}
	if len(cache.Behind()) != 0 || len(cache.Relist(configMaps)) != 0 {
		t.Error("it is still behind")
	}
}

// What happens in a copy of a server does not happen in the server, and the other way round,
// although they share objects.
func TestClone(t *testing.T) {
	server := newServer(t)
	server.Put(configMap("1"))
	copied := server.Clone()
	of := func(s *Server) string {
		found, _ := s.Peek(s.KeyOf(configMap(""))).(*corev1.ConfigMap)
		if found == nil {
			return "nothing"
		}
		return found.Data["key"]
	}
	cache, other := server.NewCache(configMaps), copied.NewCache(configMaps)
	copied.Put(configMap("2"))
	if of(server) != "1" || of(copied) != "2" || len(cache.Behind()) != 0 || len(other.Behind()) != 1 {
		t.Errorf("after a write to the copy: %s and %s", of(server), of(copied))
	}
	server.Remove(server.KeyOf(configMap("")))
	if event, ok := cache.Next(configMaps); !ok || event.After != nil || of(server) != "nothing" || of(copied) != "2" {
		t.Errorf("after a write to the server: %v, %s and %s", event, of(server), of(copied))
	}
	if event, ok := other.Next(configMaps); !ok || event.After == nil || event.After.GetResourceVersion() != "2" {
		t.Errorf("the copy tells of %v", event)
	}
}
