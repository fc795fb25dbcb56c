package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var errStale = errors.New("the object has been modified")

// deletionTime is when everything is deleted that has finalizers. A model has no clock.
var deletionTime = metav1.Unix(1_600_000_000, 0)

// kinds are the kinds of types, by scheme and type. To look them up in a scheme takes longer than most of
// what is done to an object here.
var kinds sync.Map

type typeIn struct {
	scheme *runtime.Scheme
	of     reflect.Type
}

// kindOf returns the kind of an object or of a list. A test that uses one that the scheme does not have is wrong.
func kindOf(scheme *runtime.Scheme, object runtime.Object) schema.GroupKind {
	switch object.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList, runtime.Unstructured:
		return object.GetObjectKind().GroupVersionKind().GroupKind()
	}
	of := typeIn{scheme, reflect.TypeOf(object)}
	if known, ok := kinds.Load(of); ok {
		kind, _ := known.(schema.GroupKind)
		return kind
	}
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		panic(err)
	}
	kinds.Store(of, gvk.GroupKind())
	return gvk.GroupKind()
}

func copyOf(object client.Object) client.Object {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		panic(fmt.Sprintf("%T copies to something else", object))
	}
	return copied
}

func emptyOf(object client.Object) client.Object {
	empty, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(object).Elem()))
	if !ok {
		panic(fmt.Sprintf("%T is not a pointer to an object", object))
	}
	return empty
}

// fill copies an object into what a reader asked for: the same type, or metadata alone.
func fill(into, from client.Object) {
	if metadata, ok := into.(*metav1.PartialObjectMetadata); ok {
		gvk := metadata.GroupVersionKind()
		*metadata = *metadataOf(from).DeepCopy()
		metadata.SetGroupVersionKind(gvk)
		return
	}
	if reflect.TypeOf(into) != reflect.TypeOf(from) {
		// Somebody has created it without its type, and learns what the API server gives an object.
		into.SetUID(from.GetUID())
		into.SetResourceVersion(from.GetResourceVersion())
		into.SetCreationTimestamp(from.GetCreationTimestamp())
		return
	}
	switch from := from.(type) { // Those that are read most, and are large, are copied to where they belong at once.
	case *managementv3.Cluster:
		from.DeepCopyInto(into.(*managementv3.Cluster)) //nolint:forcetypeassert // It is of the same type.
	case *clusterv1.Cluster:
		from.DeepCopyInto(into.(*clusterv1.Cluster)) //nolint:forcetypeassert // the same
	default:
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(copyOf(from)).Elem())
	}
}

// metadataOf returns the metadata of an object without what a transform of a cache would drop. It shares them with the
// object.
func metadataOf(object client.Object) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		Finalizers: object.GetFinalizers(), DeletionTimestamp: object.GetDeletionTimestamp(),
		OwnerReferences: object.GetOwnerReferences(),
	}}
}

// AsMetadata turns the objects of an event into metadata, as a watch of metadata delivers them.
func (e Event) AsMetadata() Event {
	if e.Before != nil {
		e.Before = metadataOf(e.Before)
	}
	if e.After != nil {
		e.After = metadataOf(e.After)
	}
	return e
}

// view is a set of objects that can be read.
type view struct {
	scheme  *runtime.Scheme
	objects tables
	indexes map[schema.GroupKind]map[string]*index
}

// index finds objects by values, which are computed once for each object.
type index struct {
	valuesOf client.IndexerFunc
	known    map[client.Object][]string
}

func (i *index) has(object client.Object, value string) bool {
	values, ok := i.known[object]
	if !ok {
		values = i.valuesOf(object)
		i.known[object] = values
	}
	return slices.Contains(values, value)
}

func (v view) get(key Key, into client.Object) error {
	from := v.objects.get(key)
	if from == nil {
		return apierrors.NewNotFound(key.resource(), key.Name)
	}
	fill(into, from)
	return nil
}

func (v view) list(kind schema.GroupKind, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	metadata, alone := list.(*metav1.PartialObjectMetadataList)
	var items []runtime.Object
	for _, row := range v.objects.of(kind) {
		matches, err := v.matches(kind, row.object, options)
		switch {
		case err != nil:
			return err
		case !matches:
		case alone:
			metadata.Items = append(metadata.Items, *metadataOf(row.object).DeepCopy())
		case options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy:
			items = append(items, row.object)
		default:
			items = append(items, copyOf(row.object))
		}
	}
	switch list := list.(type) { // Those that are read most, and are large, are set without reflection.
	case *managementv3.ClusterList:
		list.Items = valuesOf[managementv3.Cluster](items)
	case *provisioningv1.ClusterList:
		list.Items = valuesOf[provisioningv1.Cluster](items)
	case *clusterv1.ClusterList:
		list.Items = valuesOf[clusterv1.Cluster](items)
	default:
		if len(items) > 0 {
			return meta.SetList(list, items)
		}
	}
	return nil
}

// valuesOf returns what objects of a type point to.
func valuesOf[T any](objects []runtime.Object) []T {
	if len(objects) == 0 {
		return nil
	}
	values := make([]T, len(objects))
	for i := range objects {
		values[i] = *any(objects[i]).(*T) //nolint:forcetypeassert // It is of the kind of the list.
	}
	return values
}

func (v view) matches(kind schema.GroupKind, object client.Object, options *client.ListOptions) (bool, error) {
	if options.Namespace != "" && object.GetNamespace() != options.Namespace {
		return false, nil
	}
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labelsOf(object)) {
		return false, nil
	}
	if options.FieldSelector == nil {
		return true, nil
	}
	for _, requirement := range options.FieldSelector.Requirements() {
		index := v.indexes[kind][requirement.Field]
		var found bool
		switch {
		case index != nil:
			found = index.has(object, requirement.Value)
		case requirement.Field == "metadata.name":
			found = object.GetName() == requirement.Value // Every API server has it.
		default:
			return false, fmt.Errorf("%s has no index %s", kind.Kind, requirement.Field)
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}
