package setup

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// What tenants write is kept in caches for as long as it exists, and an object of theirs may have 1.5 MiB. So a cache keeps what is read of it. All
// writes are patches: what a cache has left out is in neither version that a patch is computed from, and so is not changed.
// maxAnnotation is how much is kept of an annotation that is read. Nothing that is longer can be used, but for a description, which is cut.
const maxAnnotation = 16 << 10

// keepMetadata keeps who an object is, and the given labels, of an object of which a cache holds metadata only.
func keepMetadata(labels ...string) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(client.Object); ok {
			keepIdentity(o, labels, nil)
		}
		return object, nil
	}
}

// keepLease keeps what tells who holds a Lease and, if it is that of an instance, what the instance claims.
func keepLease(object any) (any, error) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		keepIdentity(lease, []string{archelonv1.InstanceLabel}, []string{archelonv1.ScopeAnnotation, archelonv1.WatchFilterAnnotation})
		lease.Spec.PreferredHolder, lease.Spec.Strategy = nil, nil
	}
	return object, nil
}

// keepCluster drops what is large and not read of a CAPI Cluster: the topology, and annotations of others.
func keepCluster(object any) (any, error) {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok {
		return object, nil
	}
	cluster.ManagedFields = nil
	cluster.Spec.Topology = clusterv1.Topology{}
	for key, value := range cluster.Annotations {
		switch {
		case !isRead(key):
			delete(cluster.Annotations, key)
		case len(value) > maxAnnotation:
			cluster.Annotations[key] = strings.ToValidUTF8(strings.Clone(value[:maxAnnotation]), "")
		}
	}
	return object, nil
}

// isRead reports whether an annotation of a CAPI Cluster may be one that is read: ours, Rancher's or CAPI's.
func isRead(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return key == archelonv1.ImportedAnnotation || strings.HasSuffix(prefix, "archelon.io") ||
		strings.HasSuffix(prefix, "cattle.io") || strings.HasSuffix(prefix, "x-k8s.io")
}

// keepIdentity drops all labels and annotations but some, and what the API server writes down about writers.
func keepIdentity(object client.Object, labels, annotations []string) {
	object.SetManagedFields(nil)
	object.SetLabels(only(object.GetLabels(), labels))
	object.SetAnnotations(only(object.GetAnnotations(), annotations))
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.OwnerReferences = nil
	}
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
