package fleetcluster

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/archelon-io/archelon/internal/clusterclass"
)

// keys are the labels of Fleet Clusters.
func keys() clusterclass.Keys {
	return clusterclass.Keys{
		Name: "cluster-api.cattle.io/clusterclass-name", Namespace: "cluster-api.cattle.io/clusterclass-namespace",
	}
}

// Decide returns what is to be written: each Fleet Cluster has the labels of the ClusterClass, or none of them. It is
// pure.
func Decide(o Observation) []Action {
	if o.Cluster == nil || !o.Cluster.DeletionTimestamp.IsZero() || annotations.IsPaused(o.Cluster, o.Cluster) {
		return nil
	}
	wanted := keys().Labels(o.Cluster)
	var actions []Action
	for i := range o.Fleet {
		found := &o.Fleet[i]
		if after := labelled(found, wanted); found.DeletionTimestamp.IsZero() && !maps.Equal(found.Labels, after) {
			actions = append(actions, label{found, after})
		}
	}
	return actions
}

// labelled returns the labels of a Fleet Cluster as they have to be.
func labelled(found *metav1.PartialObjectMetadata, wanted map[string]string) map[string]string {
	after := map[string]string{}
	maps.Copy(after, found.Labels)
	delete(after, keys().Name)
	delete(after, keys().Namespace)
	maps.Copy(after, wanted)
	return after
}
