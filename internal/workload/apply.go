package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

const (
	// FieldManager is the field manager of all that is applied in workload clusters.
	FieldManager = "archelon"

	// cleanupPoll is how soon a workload cluster is looked at again at first while Rancher cleans up in it: the
	// clean-up begins with a pause of a minute, and nothing here watches workload clusters.
	cleanupPoll = 15 * time.Second
)

// newMapper returns the REST mapping of the kinds that are applied or read, so that no client ever needs
// the discovery of a workload cluster.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for gv, kinds := range map[schema.GroupVersion]map[string]meta.RESTScope{
		corev1.SchemeGroupVersion: {
			"Namespace": meta.RESTScopeRoot, "ServiceAccount": meta.RESTScopeNamespace,
			"Secret": meta.RESTScopeNamespace, "Service": meta.RESTScopeNamespace,
		},
		rbacv1.SchemeGroupVersion:   {"ClusterRole": meta.RESTScopeRoot, "ClusterRoleBinding": meta.RESTScopeRoot},
		appsv1.SchemeGroupVersion:   {"Deployment": meta.RESTScopeNamespace, "DaemonSet": meta.RESTScopeNamespace},
		policyv1.SchemeGroupVersion: {"PodDisruptionBudget": meta.RESTScopeNamespace},
		batchv1.SchemeGroupVersion:  {"Job": meta.RESTScopeNamespace},
	} {
		for kind, scope := range kinds {
			mapper.Add(gv.WithKind(kind), scope)
		}
	}
	return mapper
}

// rank orders kinds for apply: what others need comes first, what starts programs last. A cluster that
// is left half way has no agent rather than one without permissions.
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
	case "Deployment", "DaemonSet":
		return 5
	default:
		return 4
	}
}

// Apply applies objects with server-side apply, with one request per object: the namespace first, then
// accounts and permissions, Secrets, the rest, and workloads last. It stops at the first failure.
// An object that is being deleted is a Problem of kind Poll. A field that another manager has set
// otherwise is a Problem that names the manager, unless force takes it over.
func (c *Client) Apply(ctx context.Context, objects []*unstructured.Unstructured, force bool) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int {
		return rank(a.GetKind()) - rank(b.GetKind())
	})
	options := []client.ApplyOption{client.FieldOwner(FieldManager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	for _, object := range ordered {
		// The answer is written into the object, hence the copy.
		applied := object.DeepCopy()
		err := c.call(ctx, "applying "+describe(object), func(ctx context.Context) error {
			return c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...)
		})
		if err != nil {
			return err
		}
		if applied.GetDeletionTimestamp() != nil {
			return cleanupProblem(describe(object))
		}
	}
	return nil
}

func cleanupProblem(what string) *outcome.Problem {
	return &outcome.Problem{
		Kind:    outcome.KindPoll,
		Reason:  archelonv1.WaitingForCleanupReason,
		Message: fmt.Sprintf("%s in the workload cluster is still being deleted after an earlier registration; if that lasts, look at its finalizers", what),
		After:   cleanupPoll,
	}
}

func describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
