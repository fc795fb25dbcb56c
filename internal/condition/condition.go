// Package condition writes conditions of this program on CAPI Clusters.
package condition

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrOvertaken is why a condition is not written: there is another Cluster of the name by now, or somebody else has
// written the condition since it was read. The event of that is on its way.
var ErrOvertaken = errors.New("the Cluster or its condition has changed meanwhile")

// Writer writes conditions.
type Writer struct {
	// Client writes to the status of Clusters.
	Client client.StatusClient
	// Live reads from the API server.
	Live client.Reader
	// Owner is the field manager. It owns the conditions of one type.
	Owner string
	// Type is that of the conditions.
	Type string
}

// Apply makes the condition of a Cluster this one, or removes it if it is nil, and returns the resourceVersion of what
// it wrote. A Cluster that is gone needs no condition: the resourceVersion is empty then.
//
// The list of conditions belongs to CAPI, so it is applied as the part of it that is the owner's. An API server ignores
// the UID in a write to the status of a custom resource, so the write is bound to the resourceVersion of the Cluster
// that the condition was decided on. CAPI writes the status often. If it was faster, the condition is written all the
// same, as long as the Cluster is the same one and has the condition that it had.
func (w Writer) Apply(ctx context.Context, cluster *clusterv1.Cluster, condition *metav1.Condition) (string, error) {
	seen := cluster
	for left := attempts - 1; ; left-- {
		apply := w.configuration(seen, condition)
		err := w.Client.Status().Apply(
			ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(w.Owner), client.ForceOwnership,
		)
		switch {
		case err == nil:
			return apply.GetResourceVersion(), nil
		case !apierrors.IsConflict(err), left == 0:
			return "", client.IgnoreNotFound(err)
		}
		seen = &clusterv1.Cluster{}
		if err := w.Live.Get(ctx, client.ObjectKeyFromObject(cluster), seen); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		if seen.UID != cluster.UID || !equality.Semantic.DeepEqual(w.of(seen), w.of(cluster)) {
			return "", fmt.Errorf("%w: %s", ErrOvertaken, w.Type)
		}
	}
}

// attempts bounds how often a condition is written at once while others write the status.
const attempts = 5

// of returns the condition that a Cluster has, nil if it has none.
func (w Writer) of(cluster *clusterv1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.GetConditions(), w.Type)
}

// configuration is what is applied to one version of a Cluster.
func (w Writer) configuration(cluster *clusterv1.Cluster, condition *metav1.Condition) *unstructured.Unstructured {
	apply := &unstructured.Unstructured{Object: map[string]any{}}
	if condition != nil {
		apply.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason,
			"message": condition.Message, "observedGeneration": condition.ObservedGeneration,
			"lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		}}}
	}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	apply.SetNamespace(cluster.Namespace)
	apply.SetName(cluster.Name)
	apply.SetUID(cluster.UID)
	apply.SetResourceVersion(cluster.ResourceVersion)
	return apply
}
