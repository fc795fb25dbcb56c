package importer

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Action is one thing to do. It prints as what it does, and decides nothing: what matters of how it went is part of the
// observation then. An outcome that is not Done ends the run.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome
}

// failure is the end of an action that failed.
func failure(doing string, err error) outcome.Outcome {
	return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("%s: %w", doing, err))
}

// clientOf returns the client of the cluster that has the object: CAPI Clusters are in the management cluster,
// everything else that is written is in Rancher's.
func (r *Reconciler) clientOf(object client.Object) client.Client {
	if _, ok := object.(*clusterv1.Cluster); ok {
		return r.Client
	}
	return r.inRancher()
}

// inRancher is for Rancher clusters, and what else is in Rancher's cluster.
func (r *Reconciler) inRancher() client.Client {
	if r.Rancher != nil {
		return r.Rancher
	}
	return r.Client
}

// liveInRancher settles what a stale cache of Rancher's cluster cannot.
func (r *Reconciler) liveInRancher() client.Reader {
	if r.RancherReader != nil {
		return r.RancherReader
	}
	return r.APIReader
}

// patchLocked writes what differs in the metadata of two versions of an object, if the API server has the first one.
// All else that a Rancher cluster has would take long to compare.
func (r *Reconciler) patchLocked(ctx context.Context, before, after client.Object) error {
	locked := client.MergeFromWithOptions(meta.AsPartialObjectMetadata(before), client.MergeFromWithOptimisticLock{})
	patch, err := locked.Data(meta.AsPartialObjectMetadata(after))
	if err != nil {
		return err
	}
	return r.clientOf(before).Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
}

// patchUID applies a merge patch that carries the UID of the object.
func (r *Reconciler) patchUID(ctx context.Context, object client.Object, patch []byte) error {
	err := r.clientOf(object).Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil {
		return err
	}
	r.writes.note(object)
	return nil
}

// applyConditions writes conditions and nothing else, by server-side apply: the list belongs to CAPI. Conditions that
// the owner applied earlier and does not now are removed. The UID keeps the write from a successor of the same name.
func (r *Reconciler) applyConditions(ctx context.Context, cluster *clusterv1.Cluster, owner string, after ...metav1.Condition) error {
	list := make([]any, 0, len(after))
	for _, condition := range after {
		list = append(list, map[string]any{
			"type":               condition.Type,
			"status":             string(condition.Status),
			"reason":             condition.Reason,
			"message":            condition.Message,
			"observedGeneration": condition.ObservedGeneration,
			"lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	apply := &unstructured.Unstructured{Object: map[string]any{}}
	if len(list) > 0 {
		apply.Object["status"] = map[string]any{"conditions": list}
	}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	apply.SetNamespace(cluster.Namespace)
	apply.SetName(cluster.Name)
	apply.SetUID(cluster.UID)
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.writes.note(apply)
	return nil
}

// fieldOwner names this project in managed fields.
const fieldOwner = hold.FieldOwner

// conflictRetry is the pause after an optimistic lock failed: time enough for the watch to bring
// the newer object, whose event alone may be filtered out as irrelevant.
const conflictRetry = 50 * time.Millisecond
