package hostclaim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
)

// DeleteForMove is what clusterctl puts on what it deletes because it has moved it.
const DeleteForMove = "clusterctl.cluster.x-k8s.io/delete-for-move"

// Moved reports whether a claim is deleted because clusterctl has moved it: all that belongs to it is its successor's.
func Moved(claim *metal3v1.HostClaim) bool {
	_, moved := claim.Annotations[DeleteForMove]
	return moved
}

// IsPaused reports whether a claim, or its Cluster, is paused, or on its way to another cluster. There its Cluster may
// come later than the claim. The reader is nil where the kind of CAPI Clusters does not exist.
func IsPaused(ctx context.Context, clusters client.Reader, claim *metal3v1.HostClaim) (bool, error) {
	if _, stopped := claim.Annotations[clusterv1.PausedAnnotation]; stopped {
		return true, nil
	}
	_, parked := claim.Annotations[metal3v1.ParkedAnnotation]
	return isPausedByOthers(ctx, clusters, claim, parked)
}

// IsPausedByOthers reports whether a claim is paused by more than what its tenant can write on it. Its own pause would
// hold a namespace that is deleted, and with it the host. What clusterctl moves has a Cluster that is paused, or says
// that it was moved.
func IsPausedByOthers(ctx context.Context, clusters client.Reader, claim *metal3v1.HostClaim) (bool, error) {
	return isPausedByOthers(ctx, clusters, claim, false)
}

func isPausedByOthers(
	ctx context.Context, clusters client.Reader, claim *metal3v1.HostClaim, withoutCluster bool,
) (bool, error) {
	name := claim.Labels[clusterv1.ClusterNameLabel]
	if Moved(claim) || name == "" {
		return Moved(claim), nil
	}
	if clusters == nil {
		return withoutCluster, nil
	}
	cluster := &clusterv1.Cluster{}
	if err := clusters.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: name}, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return withoutCluster, nil
		}
		return false, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return ptr.Deref(cluster.Spec.Paused, false), nil
}

// GoesWithNamespace reports whether a claim is deleted, and its namespace as well.
func GoesWithNamespace(ctx context.Context, namespaces client.Reader, claim *metal3v1.HostClaim) (bool, error) {
	if claim.DeletionTimestamp == nil {
		return false, nil
	}
	namespace := controller.MetadataOf(corev1.SchemeGroupVersion, "Namespace")
	if err := namespaces.Get(ctx, types.NamespacedName{Name: claim.Namespace}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil // The cache may be older than the claim.
		}
		return false, fmt.Errorf("reading Namespace %s: %w", claim.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// PausedChanged admits Clusters that are paused or go on.
func PausedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
	}}
}

// DeletionBegan admits objects that are being deleted and were not before.
func DeletionBegan() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
	}
}
