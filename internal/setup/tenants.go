package setup

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// What tenants write is kept in caches for as long as it exists, and an object of theirs may have 1.5 MiB. So a cache keeps what is read of it. All
// writes are patches: what a cache has left out is in neither version that a patch is computed from, and so is not changed.

// keepLease keeps what tells who holds a Lease and, if it is that of an instance, what the instance claims.
func keepLease(object any) (any, error) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		keepIdentity(lease, []string{archelonv1.InstanceLabel}, []string{archelonv1.ScopeAnnotation, archelonv1.WatchFilterAnnotation})
		lease.Spec.PreferredHolder, lease.Spec.Strategy = nil, nil
	}
	return object, nil
}

// keepIdentity drops all labels and annotations but some, and what the API server writes down about writers.
func keepIdentity(object client.Object, labels, annotations []string) {
	object.SetManagedFields(nil)
	object.SetLabels(only(object.GetLabels(), labels))
	object.SetAnnotations(only(object.GetAnnotations(), annotations))
}

func only(values map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		value, ok := values[key]
		if !ok {
			continue
		}
		if kept == nil {
			kept = make(map[string]string, len(keys))
		}
		kept[key] = value
	}
	return kept
}
