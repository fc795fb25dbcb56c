package workload

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

const (
	// objectsPerPage keeps a page of a list far below maxAnswerBytes; maxPages ends a list that has no end.
	objectsPerPage = 20
	maxPages       = 100
)

// Get reads an object and converts it, to a pointer to what matters of it: a stranger says how many elements its lists
// have, so they should be small.
func (c *Client) Get(
	ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey, into any,
) (found bool, err error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	err = c.call(ctx, "getting "+describe(object), func(ctx context.Context) error {
		if err := c.api.Get(ctx, key, object); err != nil {
			return client.IgnoreNotFound(err)
		}
		found = true
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into) != nil {
			// The cause is dropped because it may quote the object.
			return fail(archelonv1.WorkloadServerErrorReason,
				"the workload cluster answered with a malformed %s: check that the kubeconfig leads to a Kubernetes API", kind.Kind)
		}
		return nil
	})
	return found && err == nil, err
}

// Find returns an object with the labels, in any namespace, that is the wanted one, nil if there is none. It lists page
// by page.
func (c *Client) Find(
	ctx context.Context, kind schema.GroupVersionKind, with labels.Set, wanted func(*unstructured.Unstructured) bool,
) (found *unstructured.Unstructured, err error) {
	what := kind.Kind + "s with label " + with.String()
	err = c.call(ctx, "listing "+what, func(ctx context.Context) error {
		next := ""
		for range maxPages {
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			err := c.api.List(ctx, page, client.MatchingLabels(with), client.Limit(objectsPerPage), client.Continue(next))
			if err != nil {
				return err
			}
			i := slices.IndexFunc(page.Items, func(object unstructured.Unstructured) bool { return wanted(&object) })
			if i >= 0 {
				found = &page.Items[i]
				return nil
			}
			if next = page.GetContinue(); next == "" {
				return nil
			}
		}
		return fail(archelonv1.WorkloadServerErrorReason,
			"the workload cluster lists more than %d %s: delete those that have ended", objectsPerPage*maxPages, what)
	})
	return found, err
}

// UID returns the UID of namespace kube-system, by which clusters are told from each other; empty without that
// namespace.
func (c *Client) UID(ctx context.Context) (types.UID, error) {
	namespace := &struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}{}
	key := client.ObjectKey{Name: metav1.NamespaceSystem}
	_, err := c.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), key, namespace)
	return namespace.Metadata.UID, err
}
