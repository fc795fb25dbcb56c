// Package condition writes conditions of this program on CAPI Clusters.
package condition

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is one incarnation of a CAPI Cluster.
type Cluster struct {
	Key types.NamespacedName
	UID types.UID
}

// Of names a CAPI Cluster.
func Of(cluster *clusterv1.Cluster) Cluster {
	return Cluster{Key: client.ObjectKeyFromObject(cluster), UID: cluster.UID}
}

// Apply has the owner's conditions be these and no others. The list belongs to CAPI, so it is applied as the
// part of it that is the owner's. The UID keeps the write from a successor of the same name. A Cluster that
// is gone needs no condition.
func Apply(ctx context.Context, writer client.StatusClient, cluster Cluster, owner string, after ...metav1.Condition) error {
	list := make([]any, 0, len(after))
	for _, condition := range after {
		list = append(list, map[string]any{
			"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason,
			"message": condition.Message, "observedGeneration": condition.ObservedGeneration,
			"lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	apply := &unstructured.Unstructured{Object: map[string]any{}}
	if len(list) > 0 {
		apply.Object["status"] = map[string]any{"conditions": list}
	}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	apply.SetNamespace(cluster.Key.Namespace)
	apply.SetName(cluster.Key.Name)
	apply.SetUID(cluster.UID)
	err := writer.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(owner), client.ForceOwnership)
	return client.IgnoreNotFound(err)
}
