package importer

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Indexes of CAPI clusters in the cache. With them an event costs what it wakes, however many clusters there are. Each
// value that a cluster alone has takes 800 bytes, so there are few.
const (
	// uidIndex finds a CAPI cluster by its UID.
	uidIndex = "archelon.io/uid"
	// wantedNameIndex finds CAPI clusters by their folded name, and by the folded display name that their record has or
	// would have: as a rule, these are one.
	wantedNameIndex = "archelon.io/wanted-display-name"
	// pendingIndex finds the CAPI clusters whose import is under way, under the value pending.
	pendingIndex = "archelon.io/pending"
	pending      = "true"
	// infrastructureIndex finds CAPI clusters by the kind and the name of their infrastructure.
	infrastructureIndex = "archelon.io/infrastructure"
	// takingIndex finds CAPI clusters by the Rancher cluster that they name, if Rancher deletes a CAPI cluster of its name
	// with it: a deletion of that cluster lets them go on, and their Rancher cluster may have lost its labels.
	takingIndex = "archelon.io/takes-cluster"
)

// clusterIndexes returns the indexes of CAPI clusters for imports by rules.
func clusterIndexes(rules Rules) map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		uidIndex:            func(cluster client.Object) []string { return []string{string(cluster.GetUID())} },
		wantedNameIndex:     rules.wantedNameKeys,
		infrastructureIndex: infrastructureKeys,
		takingIndex: func(cluster client.Object) []string {
			id := cluster.GetAnnotations()[archelonv1.RecordAnnotation]
			for _, strategy := range rules.strategies() {
				if strategy.Nature().TakesCluster && strings.HasPrefix(id, recordID(strategy, "")) {
					return []string{id}
				}
			}
			return nil
		},
		pendingIndex: func(object client.Object) []string {
			cluster, ok := object.(*clusterv1.Cluster)
			if !ok {
				return nil
			}
			told := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition)
			if told == nil || told.Status == metav1.ConditionTrue {
				return nil
			}
			return []string{pending}
		},
	}
}

// Indexed is a reader with indexes, as a cache is.
type Indexed interface {
	client.Reader
	client.FieldIndexer
}
