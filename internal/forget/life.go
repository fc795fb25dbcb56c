package forget

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AliveError is that a management cluster is not gone, as far as Rancher's cluster knows. It says what to do if it is.
type AliveError struct{ reason string }

// Error implements error.
func (a AliveError) Error() string { return "nothing was written: " + a.reason }

// life returns an AliveError if the management cluster is there, or may come back by itself: what is let go then would
// be imported again beside it.
func (f *forgetter) life(ctx context.Context) error {
	own := metadataOf(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := f.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, own); err != nil {
		return fmt.Errorf("reading the UID of this cluster: %w", err)
	}
	if own.UID == f.opts.UID {
		return AliveError{"this is the cluster of that UID; archelon uninstall releases what an instance in it holds"}
	}
	if err := f.seatIsDead(ctx); err != nil {
		return err
	}
	binding := metadataOf(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
	switch err := f.client.Get(ctx, client.ObjectKey{Name: edgeRole + string(f.opts.UID)}, binding); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for permissions of the management cluster: %w", err)
	}
	return AliveError{fmt.Sprintf("ClusterRoleBinding %s lets the management cluster in; uninstall the release with "+
		"role=rancher-side that created it, if the management cluster is gone for good", binding.Name)}
}

// edgeRole comes before the UID in the name of the permissions that the chart gives to a management cluster.
const edgeRole = "archelon-edge-"

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}
