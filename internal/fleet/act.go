package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/condition"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-fleet"

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, r *Reconciler) error
}

// publish writes the condition, or takes it away.
type publish struct {
	cluster   *clusterv1.Cluster
	condition *metav1.Condition
}

// String implements fmt.Stringer.
func (p publish) String() string {
	key := client.ObjectKeyFromObject(p.cluster)
	if p.condition == nil {
		return "remove the condition of " + key.String()
	}
	return fmt.Sprintf("set %s of %s to %s (%s)", p.condition.Type, key, p.condition.Status, p.condition.Reason)
}

func (p publish) do(ctx context.Context, r *Reconciler) error {
	writer := condition.Writer{
		Client: r.Client, Live: r.APIReader, Owner: FieldOwner, Type: archelonv1.FleetEngagedCondition,
	}
	_, err := writer.Apply(ctx, p.cluster, p.condition)
	return err
}
