package members

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// told are conditions that were written and that the cache may not have yet. What was created wakes a Cluster at once,
// and the same Event would be published again.
type told struct {
	byKey sync.Map // of conditionAt
}

// conditionAt is what a version of a Cluster was given.
type conditionAt struct {
	version   string
	condition *metav1.Condition
}

// note remembers what was written to a Cluster as the cache has it.
func (t *told) note(cluster *clusterv1.Cluster, written Action) {
	if p, ok := written.(publish); ok {
		t.byKey.Store(client.ObjectKeyFromObject(cluster), conditionAt{cluster.ResourceVersion, p.condition})
	}
}

// condition returns the one that a Cluster has, nil for none. A write has changed the version, so what was noted is
// forgotten when the cache has it.
func (t *told) condition(cluster *clusterv1.Cluster) *metav1.Condition {
	key := client.ObjectKeyFromObject(cluster)
	if found, ok := t.byKey.Load(key); ok {
		if at, ok := found.(conditionAt); ok && at.version == cluster.ResourceVersion {
			return at.condition
		}
		t.byKey.Delete(key)
	}
	return meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherMembersCondition)
}
