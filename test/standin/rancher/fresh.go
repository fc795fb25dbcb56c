package rancher

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// freshness remembers the last version of each object that this process wrote. A cache that is
// behind it would let a step with effects elsewhere, such as the creation of a Job, run twice.
type freshness struct {
	mu       sync.Mutex
	versions map[string]string
}

func newFreshness() *freshness { return &freshness{versions: map[string]string{}} }

func freshKey(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String() + "/" + obj.GetNamespace() + "/" + obj.GetName()
}

// wrote notes the object as the server returned it.
func (f *freshness) wrote(obj *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[freshKey(obj)] = obj.GetResourceVersion()
}

// has says whether this very version of the object was noted.
func (f *freshness) has(obj *unstructured.Unstructured) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	version, ok := f.versions[freshKey(obj)]
	return ok && version == obj.GetResourceVersion()
}

// forget drops an object that is gone.
func (f *freshness) forget(obj *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.versions, freshKey(obj))
}

// stale says whether the object is older than the last write to it.
func (f *freshness) stale(obj *unstructured.Unstructured) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	written, ok := f.versions[freshKey(obj)]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), written)
	return err == nil && order < 0
}

// named returns an object that was not found with the key it was looked for under.
func named(obj *unstructured.Unstructured, key types.NamespacedName) *unstructured.Unstructured {
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return obj
}
