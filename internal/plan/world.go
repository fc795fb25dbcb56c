package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/archelon-io/archelon/internal/rancher"
)

// world is a management cluster in memory. It begins as a copy of what there is, and is changed by what the controller
// writes to it, as an API server would change it. It has no connection, so nothing that is written to it leaves it.
type world struct {
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	tables  map[schema.GroupVersionKind]*table
	version uint64
	// does is what the controller does now, and changes are what it has written so far.
	does    string
	changes []Change
}

// table has the objects of a kind.
type table struct {
	objects  map[types.NamespacedName]client.Object
	indexers map[string]client.IndexerFunc
	// index has the keys of objects by an index and a value of it.
	index map[[2]string]map[types.NamespacedName]bool
}

func newWorld(known *runtime.Scheme, mapper meta.RESTMapper) *world {
	return &world{scheme: known, mapper: mapper, tables: map[schema.GroupVersionKind]*table{}}
}

// namedKind is a kind of its own here: what is known of the display name of a v3 Cluster.
func namedKind() schema.GroupVersionKind {
	return managementv3.SchemeGroupVersion.WithKind("NamedCluster")
}

// otherNamespaceKind is that of the Namespaces of Rancher's cluster, where that is another one.
func otherNamespaceKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("NamespaceOfRancher")
}

// kindOf returns the kind of an object, or of the objects of a list.
func (w *world) kindOf(object runtime.Object) (schema.GroupVersionKind, error) {
	switch object.(type) {
	case *rancher.NamedCluster, *rancher.NamedClusterList:
		return namedKind(), nil
	}
	kind, err := apiutil.GVKForObject(object, w.scheme)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, err
}

func (w *world) table(kind schema.GroupVersionKind) *table {
	found := w.tables[kind]
	if found == nil {
		found = &table{
			objects: map[types.NamespacedName]client.Object{}, indexers: map[string]client.IndexerFunc{},
			index: map[[2]string]map[types.NamespacedName]bool{},
		}
		w.tables[kind] = found
	}
	return found
}

// put has the world hold an object, instead of the one of its name that it may have.
func (w *world) put(kind schema.GroupVersionKind, object client.Object) {
	if kind != namedKind() {
		object.GetObjectKind().SetGroupVersionKind(kind)
	}
	w.table(kind).put(object)
	if v3, ok := object.(*managementv3.Cluster); ok {
		named := &rancher.NamedCluster{ObjectMeta: *v3.ObjectMeta.DeepCopy()}
		named.Spec.DisplayName = v3.Spec.DisplayName
		if trimmed, err := rancher.TrimNamedCluster(named); err == nil {
			named, _ = trimmed.(*rancher.NamedCluster)
		}
		w.put(namedKind(), named)
	}
}

func (w *world) remove(kind schema.GroupVersionKind, key types.NamespacedName) {
	w.table(kind).remove(key)
	if kind == managementv3.SchemeGroupVersion.WithKind("Cluster") {
		w.remove(namedKind(), key)
	}
}

func (t *table) put(object client.Object) {
	key := client.ObjectKeyFromObject(object)
	t.remove(key)
	t.objects[key] = object
	for name, values := range t.indexers {
		t.enter(name, values, key, object)
	}
}

func (t *table) enter(name string, values client.IndexerFunc, key types.NamespacedName, object client.Object) {
	for _, value := range values(object) {
		at := [2]string{name, value}
		if t.index[at] == nil {
			t.index[at] = map[types.NamespacedName]bool{}
		}
		t.index[at][key] = true
	}
}

func (t *table) remove(key types.NamespacedName) {
	old := t.objects[key]
	if old == nil {
		return
	}
	delete(t.objects, key)
	for name, values := range t.indexers {
		for _, value := range values(old) {
			delete(t.index[[2]string{name, value}], key)
		}
	}
}

// IndexField implements client.FieldIndexer.
func (w *world) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	kind, err := w.kindOf(object)
	if err != nil {
		return err
	}
	t := w.table(kind)
	t.indexers[field] = values
	for key, object := range t.objects {
		t.enter(field, values, key, object)
	}
	return nil
}

// next returns the version of the next write.
func (w *world) next() string {
	w.version++
	return strconv.FormatUint(w.version, 10)
}

// Get implements client.Reader.
func (w *world) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	kind, stored, err := w.find(object, key)
	if err != nil {
		return err
	}
	return into(kind, stored, object)
}

// find returns what is stored under the kind of an object, and a key.
func (w *world) find(like runtime.Object, key client.ObjectKey) (schema.GroupVersionKind, client.Object, error) {
	kind, err := w.kindOf(like)
	if err != nil {
		return kind, nil, err
	}
	stored := w.table(kind).objects[key]
	if stored == nil {
		return kind, nil, apierrors.NewNotFound(groupOf(kind), key.String())
	}
	return kind, stored, nil
}

// groupOf names a kind in errors.
func groupOf(kind schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
}

// into copies an object to one that may be of another Go type.
func into(kind schema.GroupVersionKind, from, to client.Object) error {
	if reflect.TypeOf(from) == reflect.TypeOf(to) {
		reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("copying %s %s: %w", kind.Kind, client.ObjectKeyFromObject(from), err)
	}
	if other, ok := to.(*unstructured.Unstructured); ok {
		other.SetUnstructuredContent(content)
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, to); err != nil {
		return fmt.Errorf("copying %s %s: %w", kind.Kind, client.ObjectKeyFromObject(from), err)
	}
	to.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// List implements client.Reader.
func (w *world) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	kind, err := w.kindOf(list)
	if err != nil {
		return err
	}
	keys, err := w.table(kind).selected(options.FieldSelector)
	if err != nil {
		return err
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	var found []runtime.Object
	for _, key := range keys {
		object := w.table(kind).objects[key]
		if options.Namespace != "" && options.Namespace != key.Namespace ||
			options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		item := object
		if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
			item = &metav1.PartialObjectMetadata{}
		}
		if item != object {
			err = into(kind, object, item)
		} else {
			item, _ = object.DeepCopyObject().(client.Object)
		}
		if err != nil {
			return err
		}
		found = append(found, item)
	}
	return meta.SetList(list, found)
}

// selected returns the keys of the objects that a field selector names, by an index or by the name.
func (t *table) selected(by fields.Selector) ([]types.NamespacedName, error) {
	if by == nil || by.Empty() {
		return slices.Collect(maps.Keys(t.objects)), nil
	}
	required := by.Requirements()
	if len(required) != 1 {
		return nil, fmt.Errorf("selecting by %s: %w", by, errors.ErrUnsupported)
	}
	field, value := required[0].Field, required[0].Value
	if _, indexed := t.indexers[field]; indexed {
		return slices.Collect(maps.Keys(t.index[[2]string{field, value}])), nil
	}
	if field != metav1.ObjectNameField {
		return nil, fmt.Errorf("selecting by %s: %w", by, errors.ErrUnsupported)
	}
	var keys []types.NamespacedName
	for key := range t.objects {
		if key.Name == value {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// cached shows of a world what the caches of a manager show: of some kinds, objects with certain labels.
type cached struct {
	*world

	shown selectors
}

// shows reports whether the caches have an object.
func (c cached) shows(kind schema.GroupVersionKind, object client.Object) bool {
	selector := c.shown[kind]
	return selector == nil || selector.Matches(labels.Set(object.GetLabels()))
}

// Get implements client.Reader.
func (c cached) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	kind, stored, err := c.find(object, key)
	if err != nil {
		return err
	}
	if !c.shows(kind, stored) {
		return apierrors.NewNotFound(groupOf(kind), key.String())
	}
	return c.world.Get(ctx, key, object, opts...)
}

// List implements client.Reader.
func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := c.kindOf(list)
	if err != nil {
		return err
	}
	if selector := c.shown[kind]; selector != nil {
		opts = append(slices.Clone(opts), client.MatchingLabelsSelector{Selector: selector})
	}
	return c.world.List(ctx, list, opts...)
}

// inRancher is a world as Rancher's cluster is, which may have Namespaces of its own.
type inRancher struct {
	*world

	other bool
}

// List implements client.Reader.
func (i inRancher) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	of, err := i.kindOf(list)
	if err != nil || !i.other || of != corev1.SchemeGroupVersion.WithKind("Namespace") {
		return i.world.List(ctx, list, opts...)
	}
	others := &metav1.PartialObjectMetadataList{}
	others.SetGroupVersionKind(otherNamespaceKind())
	if err := i.world.List(ctx, others, opts...); err != nil {
		return err
	}
	found := make([]runtime.Object, 0, len(others.Items))
	for n := range others.Items {
		found = append(found, &others.Items[n])
	}
	return meta.SetList(list, found)
}
