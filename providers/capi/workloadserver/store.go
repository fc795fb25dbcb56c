package workloadserver

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
)

// key identifies an object.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// change is one write, for watches.
type change struct {
	version int
	kind    watch.EventType
	key     key
	object  *unstructured.Unstructured // never changed once it is here
}

// cluster is the content of one workload cluster: its objects, and all changes that led there. It is as small as what
// an import writes, so nothing is ever compacted.
type cluster struct {
	mu      sync.Mutex
	version int
	objects map[key]*unstructured.Unstructured
	history []change
	changed chan struct{} // closed by the next write
}

func newCluster() *cluster {
	c := &cluster{objects: map[key]*unstructured.Unstructured{}, changed: make(chan struct{})}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		namespace := &unstructured.Unstructured{}
		namespace.SetAPIVersion("v1")
		namespace.SetKind("Namespace")
		namespace.SetName(name)
		c.store(key{resource: schema.GroupResource{Resource: "namespaces"}, name: name}, namespace)
	}
	return c
}

// put creates or replaces an object and returns it as it is now. Of the one before it keeps what a server owns.
func (c *cluster) put(t target, object *unstructured.Unstructured, mayCreate, mayReplace bool) (*unstructured.Unstructured, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{resource: t.resource.GroupResource(), namespace: t.namespace, name: object.GetName()}
	before, exists := c.objects[k]
	switch {
	case k.name == "":
		return nil, 0, apierrors.NewBadRequest("the object has no name")
	case exists && !mayReplace:
		return nil, 0, apierrors.NewAlreadyExists(k.resource, k.name)
	case !exists && !mayCreate:
		return nil, 0, apierrors.NewNotFound(k.resource, k.name)
	case t.namespace != "" && !c.hasNamespace(t.namespace):
		return nil, 0, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, t.namespace)
	}
	code := http.StatusCreated
	if exists {
		if sent := object.GetResourceVersion(); sent != "" && sent != before.GetResourceVersion() {
			return nil, 0, apierrors.NewConflict(k.resource, k.name, errStale)
		}
		object.SetUID(before.GetUID())
		object.SetCreationTimestamp(before.GetCreationTimestamp())
		code = http.StatusOK
	}
	object.SetNamespace(t.namespace)
	return c.store(k, object), code, nil
}

// store keeps an object. The lock is held, or nobody else knows the cluster yet.
func (c *cluster) store(k key, object *unstructured.Unstructured) *unstructured.Unstructured {
	kind := watch.Modified
	if _, exists := c.objects[k]; !exists {
		kind = watch.Added
		object.SetUID(uuid.NewUUID())
		object.SetCreationTimestamp(metav1.NewTime(time.Now()))
	}
	c.record(kind, k, object)
	c.objects[k] = object
	return object
}

func (c *cluster) record(kind watch.EventType, k key, object *unstructured.Unstructured) {
	c.version++
	object.SetResourceVersion(strconv.Itoa(c.version))
	c.history = append(c.history, change{version: c.version, kind: kind, key: k, object: object})
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) hasNamespace(name string) bool {
	_, ok := c.objects[key{resource: schema.GroupResource{Resource: "namespaces"}, name: name}]
	return ok
}

func (c *cluster) get(t target) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object, ok := c.objects[key{resource: t.resource.GroupResource(), namespace: t.namespace, name: t.name}]
	if !ok {
		return nil, apierrors.NewNotFound(t.resource.GroupResource(), t.name)
	}
	return object, nil
}

// delete removes an object at once, and with a namespace all that is in it: nobody here sets finalizers. Without a name
// it removes the objects of the collection that the selector matches.
func (c *cluster) delete(t target, selector labels.Selector) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{resource: t.resource.GroupResource(), namespace: t.namespace, name: t.name}
	if _, ok := c.objects[k]; !ok && t.name != "" {
		return apierrors.NewNotFound(k.resource, k.name)
	}
	for other, object := range c.objects {
		switch {
		case other == k:
		case t.name == "" && t.contains(other) && selector.Matches(labels.Set(object.GetLabels())):
		case t.name != "" && k.resource.Resource == "namespaces" && other.namespace == k.name:
		default:
			continue
		}
		c.record(watch.Deleted, other, object.DeepCopy())
		delete(c.objects, other)
	}
	return nil
}

// list returns the objects that the target and the selector ask for, by name, and the version that they stand for.
func (c *cluster) list(t target, selector labels.Selector) ([]unstructured.Unstructured, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items := []unstructured.Unstructured{}
	for k, object := range c.objects {
		if t.contains(k) && selector.Matches(labels.Set(object.GetLabels())) {
			items = append(items, *object)
		}
	}
	slices.SortFunc(items, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return items, c.version
}

// since returns the changes after a version, the version reached, and what is closed by the next change.
func (c *cluster) since(t target, selector labels.Selector, version int) ([]event, int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []event
	for _, entry := range c.history {
		if entry.version > version && t.contains(entry.key) && selector.Matches(labels.Set(entry.object.GetLabels())) {
			events = append(events, event{Type: entry.kind, Object: entry.object})
		}
	}
	return events, c.version, c.changed
}

// contains says whether an object belongs to the collection.
func (t target) contains(k key) bool {
	return k.resource == t.resource.GroupResource() && (t.namespace == "" || t.namespace == k.namespace)
}
