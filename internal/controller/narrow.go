package controller

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Everywhere receives a kind from all namespaces, whatever the scope.
func Everywhere() map[string]cache.Config { return map[string]cache.Config{} }

// Having selects objects that have a label.
func Having(label string) labels.Selector {
	// The key is a constant; only a malformed one is an error.
	requirement, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(err)
	}
	return labels.NewSelector().Add(*requirement)
}

// Named selects objects of a name.
func Named(name string) fields.Selector {
	return fields.OneTermEqualSelector("metadata.name", name)
}

// MetadataOf has objects received without spec and status.
func MetadataOf(version schema.GroupVersion, kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(version.WithKind(kind))
	return object
}

// What tenants write is kept in caches for as long as it exists, and an object of theirs may have 1.5 MiB. So a cache
// keeps what is read of it. All writes are patches: what a cache has left out is in neither version that a patch is
// computed from, and so is not changed.

// KeepIdentity leaves of metadata what tells one object, and one version of it, from another, and since when it is
// there. It is a transform of a cache, for kinds of which nothing else is read and to which nothing is written.
func KeepIdentity(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.ObjectMeta = metav1.ObjectMeta{
			Namespace: found.Namespace, Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
			CreationTimestamp: found.CreationTimestamp, // agents wait for a time from then on
		}
	}
	return object, nil
}

// KeepLabels is KeepIdentity for kinds of which some labels are read, and whether they are being deleted.
func KeepLabels(keys ...string) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if found, ok := object.(*metav1.PartialObjectMetadata); ok {
			kept, deletion := OnlyLabels(found.Labels, keys...), found.DeletionTimestamp
			if _, err := KeepIdentity(object); err != nil {
				return nil, err
			}
			found.Labels, found.DeletionTimestamp = kept, deletion
		}
		return object, nil
	}
}

// KeepAllLabels is KeepLabels for Namespaces that are selected by their labels. These are what an administrator
// writes: whoever may write them decides who works in a namespace.
func KeepAllLabels(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		kept, deletion := found.Labels, found.DeletionTimestamp
		if _, err := KeepIdentity(object); err != nil {
			return nil, err
		}
		found.Labels, found.DeletionTimestamp = kept, deletion
	}
	return object, nil
}

// KeepLease leaves of a Lease what tells who holds it. It is a transform of a cache.
func KeepLease(object any) (any, error) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		lease.ManagedFields, lease.Labels, lease.Annotations = nil, nil, nil
		lease.Finalizers, lease.OwnerReferences = nil, nil
		lease.Spec.PreferredHolder, lease.Spec.Strategy = nil, nil
	}
	return object, nil
}
