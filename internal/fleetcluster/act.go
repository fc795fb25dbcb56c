package fleetcluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-fleet-cluster"

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, r *Reconciler) error
}

// label gives a Fleet Cluster labels, in the state that was decided on.
type label struct {
	fleet *metav1.PartialObjectMetadata
	after map[string]string
}

// String implements fmt.Stringer.
func (l label) String() string {
	name, namespace := l.after[keys().Name], l.after[keys().Namespace]
	if name == "" {
		return fmt.Sprintf("remove the labels of a ClusterClass from Fleet Cluster %s", client.ObjectKeyFromObject(l.fleet))
	}
	key := client.ObjectKeyFromObject(l.fleet)
	return fmt.Sprintf("label Fleet Cluster %s with ClusterClass %s/%s", key, namespace, name)
}

func (l label) do(ctx context.Context, r *Reconciler) error {
	after, locked := l.fleet.DeepCopy(), client.MergeFromWithOptions(l.fleet, client.MergeFromWithOptimisticLock{})
	after.Labels = l.after
	err := r.Rancher.Patch(ctx, after, locked, client.FieldOwner(FieldOwner))
	return client.IgnoreNotFound(err) // One that is gone needs no label.
}
