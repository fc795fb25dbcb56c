package workload

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/problem"
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

// TerminatingReason is the reason of a Problem of an object that is still being deleted, or whose namespace is.
const TerminatingReason = "WorkloadTerminating"

// terminatingPoll is how soon it is looked at again whether something that is being deleted is gone: nothing here
// watches workload clusters.
const terminatingPoll = 15 * time.Second

// terminating is the Problem of something that is being deleted.
func terminating(what string) *problem.Problem {
	return &problem.Problem{
		Kind: problem.KindPoll, Reason: TerminatingReason, After: terminatingPoll,
		Message: what + " in the workload cluster is still being deleted. After 5 minutes, check its finalizers",
	}
}
