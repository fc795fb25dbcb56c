package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/controller"
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

// wholeFinalizers has two versions of the metadata of an object have the finalizers that the cache has left out.
func (r *Reconciler) wholeFinalizers(ctx context.Context, object, from, to client.Object) error {
	live := r.liveInRancher()
	var whole client.Object
	switch object.(type) {
	case *clusterv1.Cluster:
		live, whole = r.APIReader, &clusterv1.Cluster{}
	case *managementv3.Cluster:
		whole = &managementv3.Cluster{}
	default:
		whole = &provisioningv1.Cluster{}
	}
	return controller.WholeFinalizers(ctx, live, whole, from, to)
}

// patchLocked writes what differs in the metadata of two versions of an object, if the API server has the first one.
// All else that a Rancher cluster has would take long to compare.
func (r *Reconciler) patchLocked(ctx context.Context, before, after client.Object) error {
	from, to := meta.AsPartialObjectMetadata(before), meta.AsPartialObjectMetadata(after)
	if err := r.wholeFinalizers(ctx, before, from, to); err != nil {
		return err
	}
	patch, err := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}).Data(to)
	if err != nil {
		return err
	}
	return r.clientOf(before).Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
}

// patchUID applies a merge patch that carries the UID of the object.
func (r *Reconciler) patchUID(ctx context.Context, object client.Object, patch []byte) error {
	err := r.clientOf(object).Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	if err != nil {
		return replacedOr(err)
	}
	r.writes.note(object)
	return nil
}

// replacedOr returns a conflict if an error says that a patch is for an earlier object of the name. An API server
// takes a patch with another UID for one that changes the UID, which it refuses as invalid.
func replacedOr(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	details := status.Status().Details
	if !slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" }) {
		return err
	}
	return apierrors.NewConflict(schema.GroupResource{Group: details.Group, Resource: details.Kind}, details.Name, errReplaced)
}

var errReplaced = errors.New("there is another object of the name by now")

// applyCondition writes the condition of the import and nothing else, see condition.Writer.
func (r *Reconciler) applyCondition(ctx context.Context, cluster *clusterv1.Cluster, after *metav1.Condition) error {
	writer := condition.Writer{
		Client: r.Client, Live: r.APIReader, Owner: fieldOwner, Type: archelonv1.RancherImportedCondition,
	}
	version, err := writer.Apply(ctx, cluster, after)
	if err != nil {
		return err
	}
	r.writes.note(&metav1.ObjectMeta{UID: cluster.UID, ResourceVersion: version})
	return nil
}

// fieldOwner names this project in managed fields.
const fieldOwner = hold.FieldOwner

// conflictRetry is the pause after an optimistic lock failed: time enough for the watch to bring
// the newer object, whose event alone may be filtered out as irrelevant.
const conflictRetry = 50 * time.Millisecond
