package workload

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager is the field manager of all that is applied in workload clusters.
const FieldManager = "archelon"

// rank orders kinds for apply: what others need comes first, what starts programs last. What
// is left half way has no programs rather than ones without permissions.
func rank(kind string) int {
	switch kind {
	case "Namespace":
		return 0
	case "ServiceAccount", "ClusterRole":
		return 1
	case "ClusterRoleBinding":
		return 2
	case "Secret":
		return 3
	case "Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob", "Pod":
		return 5
	default:
		return 4
	}
}

// Apply applies objects with server-side apply, with one request per object: the namespace first, then
// accounts and permissions, Secrets, the rest, and workloads last. It stops at the first failure.
// The workload cluster is asked about kinds that are not known, before anything is applied.
// An object that is being deleted is a Problem of kind Poll. A field that another manager has set
// otherwise is a Problem that names the manager, unless force takes it over.
func (c *Client) Apply(ctx context.Context, objects []*unstructured.Unstructured, force bool) error {
	// The answers are written into the objects, hence the copies.
	ordered := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		ordered = append(ordered, object.DeepCopy())
	}
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int {
		return rank(a.GetKind()) - rank(b.GetKind())
	})
	api, err := c.knowing(ctx, ordered)
	if err != nil {
		return err
	}
	options := []client.ApplyOption{client.FieldOwner(FieldManager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	for _, object := range ordered {
		what, namespace := describe(object), object.GetNamespace()
		err := c.call(ctx, "applying "+what, func(ctx context.Context) error {
			err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return terminating("Namespace " + namespace)
			}
			return err
		})
		if err != nil {
			return err
		}
		if object.GetDeletionTimestamp() != nil {
			return terminating(what)
		}
	}
	return nil
}

func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
