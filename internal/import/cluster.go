package importer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

func paused(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Spec.Paused, false) || annotations.HasPaused(cluster)
}

// holds reports whether the cluster carries the finalizer of the import.
func holds(cluster *clusterv1.Cluster) bool { return hold.Import.On(cluster) }

// leftBehind reports whether there may be something to see to on a cluster that this instance does not claim.
func leftBehind(cluster *clusterv1.Cluster) bool {
	return cluster.DeletionTimestamp.IsZero() && !paused(cluster) &&
		(holds(cluster) || meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition) != nil)
}
