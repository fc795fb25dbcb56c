// Package clusterclass says of which ClusterClass a CAPI Cluster is, in labels by which Fleet can choose clusters.
package clusterclass

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Keys are the two labels of a ClusterClass.
type Keys struct{ Name, Namespace string }

// Labels returns the labels for the ClusterClass of a CAPI Cluster, nil without one. A label does not hold every name
// of a class.
func (k Keys) Labels(cluster *clusterv1.Cluster) map[string]string {
	class := cluster.Spec.Topology.ClassRef
	if class.Name == "" || len(class.Name) > validation.LabelValueMaxLength {
		return nil
	}
	return map[string]string{k.Name: class.Name, k.Namespace: cmp.Or(class.Namespace, cluster.Namespace)}
}
