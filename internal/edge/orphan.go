package edge

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Orphan reports whether a Rancher cluster of this management cluster has no CAPI Cluster, and nobody has deleted it.
// It goes by the UID, because another CAPI Cluster may have the name by now. The UIDs are those of the CAPI Clusters.
func Orphan(rancherCluster metav1.Object, clusters sets.Set[types.UID]) bool {
	created := types.UID(rancherCluster.GetLabels()[archelonv1.OwnerUIDLabel])
	return created != "" && !clusters.Has(created) && rancherCluster.GetDeletionTimestamp().IsZero()
}
