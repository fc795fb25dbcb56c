package fleet

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/providers/capi"
)

// Observation is all that a run has read.
type Observation struct {
	// Cluster is nil if there is none.
	Cluster *clusterv1.Cluster
	// Ours is whether this instance works on it.
	Ours bool
	// Member is whether it is to be engaged, and Status where that stands.
	Member bool
	Status capi.Status
}

// observe reads. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	var o Observation
	cluster := &clusterv1.Cluster{}
	switch err := r.Client.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("getting Cluster %s: %w", key, err)
	}
	o.Cluster, o.Ours = cluster, r.Claim.Covers(cluster)
	o.Status, o.Member = r.Fleet.Status(key)
	return o, nil
}
