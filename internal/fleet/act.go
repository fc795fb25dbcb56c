package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-fleet"

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, c client.Client) error
}

// identity is one incarnation of a Cluster.
type identity struct {
	key types.NamespacedName
	uid types.UID
}

func identityOf(cluster *clusterv1.Cluster) identity {
	return identity{client.ObjectKeyFromObject(cluster), cluster.UID}
}

// publish writes the condition, or takes it away. The list belongs to CAPI, so it is applied as the one thing that is ours.
// The UID keeps the write from a successor of the same name.
type publish struct {
	cluster   identity
	condition *metav1.Condition
}

// String implements fmt.Stringer.
func (p publish) String() string {
	if p.condition == nil {
		return "remove the condition of " + p.cluster.key.String()
	}
	return fmt.Sprintf("set %s of %s to %s (%s)", p.condition.Type, p.cluster.key, p.condition.Status, p.condition.Reason)
}

func (p publish) do(ctx context.Context, c client.Client) error {
	apply := &unstructured.Unstructured{Object: map[string]any{}}
	if p.condition != nil {
		apply.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": p.condition.Type, "status": string(p.condition.Status), "reason": p.condition.Reason,
			"message": p.condition.Message, "observedGeneration": p.condition.ObservedGeneration,
			"lastTransitionTime": p.condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		}}}
	}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	apply.SetNamespace(p.cluster.key.Namespace)
	apply.SetName(p.cluster.key.Name)
	apply.SetUID(p.cluster.uid)
	err := c.Status().Apply(
		ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(FieldOwner), client.ForceOwnership,
	)
	return client.IgnoreNotFound(err)
}
