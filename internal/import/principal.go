package importer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Principals knows whether the infrastructure of CAPI clusters may work with the principal that it names. It knows
// nothing of imports, and an import nothing of principals but this.
type Principals interface {
	// Permits returns nil if it may, or if nothing decides about it. Else the error is an outcome.Problem: a Stall that
	// says why not, or a Wait while there is nothing to decide on. Any other error means that it is not known. The note is
	// what people should know of a cluster that may.
	Permits(ctx context.Context, cluster *clusterv1.Cluster) (note string, err error)
	// Subscribe has changed called, with the kind and the name of the infrastructure of a cluster, when the answer may be
	// another.
	Subscribe(changed func(kind string, infrastructure types.NamespacedName))
}

// withRefusal puts what is to be said about a principal before the other things that a condition says.
func withRefusal(refused, message string) string {
	if refused == "" || message == "" {
		return refused + message
	}
	return refused + ". " + message
}

func infrastructureKey(kind, name string) string { return kind + "/" + name }

// infrastructureKeys returns the infrastructure of a CAPI cluster.
func infrastructureKeys(object client.Object) []string {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.InfrastructureRef.Name == "" {
		return nil
	}
	return []string{infrastructureKey(cluster.Spec.InfrastructureRef.Kind, cluster.Spec.InfrastructureRef.Name)}
}
