package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/condition"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-fleet"

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, c client.Client) error
}

// publish writes the condition, or takes it away.
type publish struct {
	cluster   condition.Cluster
	condition *metav1.Condition
}

// String implements fmt.Stringer.
func (p publish) String() string {
	if p.condition == nil {
		return "remove the condition of " + p.cluster.Key.String()
	}
	return fmt.Sprintf("set %s of %s to %s (%s)", p.condition.Type, p.cluster.Key, p.condition.Status, p.condition.Reason)
}

func (p publish) do(ctx context.Context, c client.Client) error {
	if p.condition == nil {
		return condition.Apply(ctx, c, p.cluster, FieldOwner)
	}
	return condition.Apply(ctx, c, p.cluster, FieldOwner, *p.condition)
}
