package condition

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers conditions of one type that were written and that the cache may not have yet. Without it, a Cluster
// that is reconciled before that would get the same Event again. The zero value is ready for use.
type Written struct{ byKey sync.Map } // of writtenTo

// writtenTo is the condition that a version of a Cluster was given.
type writtenTo struct {
	version   string
	condition *metav1.Condition
}

// Note remembers what was written to a Cluster as the cache has it; nil stands for none.
func (w *Written) Note(cluster *clusterv1.Cluster, condition *metav1.Condition) {
	w.byKey.Store(client.ObjectKeyFromObject(cluster), writtenTo{cluster.ResourceVersion, condition})
}

// Of returns the condition of a type that a Cluster has, nil for none. A write has changed the version, so what was
// noted is forgotten when the cache has it.
func (w *Written) Of(cluster *clusterv1.Cluster, conditionType string) *metav1.Condition {
	key := client.ObjectKeyFromObject(cluster)
	if found, ok := w.byKey.Load(key); ok {
		if last, ok := found.(writtenTo); ok && last.version == cluster.ResourceVersion {
			return last.condition
		}
		w.byKey.Delete(key)
	}
	return meta.FindStatusCondition(cluster.GetConditions(), conditionType)
}
