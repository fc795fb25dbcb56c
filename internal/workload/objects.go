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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/problem"
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
			return problem.Fail(archelonv1.WorkloadServerErrorReason,
				"The workload cluster answered with a malformed %s. Check that the kubeconfig leads to a Kubernetes API server", kind.Kind)
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
		return problem.Fail(archelonv1.WorkloadServerErrorReason,
			"The workload cluster has more than %d %s. Delete those that have ended", objectsPerPage*maxPages, what)
	})
	return found, err
}

// List reads the first objects of a kind in a namespace, as many as limit, and converts them, to a pointer to a struct
// with what matters of their items. What follows them is left out.
func (c *Client) List(
	ctx context.Context, kind schema.GroupVersionKind, limit int64, into any, options ...client.ListOption,
) error {
	return c.call(ctx, "listing "+kind.Kind+"s", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.api.List(ctx, list, append(options, client.Limit(limit))...); err != nil {
			return err
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), into) != nil {
			// The cause is dropped because it may quote the objects.
			return problem.Fail(archelonv1.WorkloadServerErrorReason,
				"The workload cluster answered with malformed %ss. Check that the kubeconfig leads to a Kubernetes API server", kind.Kind)
		}
		return nil
	})
}

// Bounds of the end of a log.
const (
	logLines = 50
	logBytes = 32 << 10
)

// Log returns the end of the log of a container, or of the one that ran before it. It is a stranger's text.
func (c *Client) Log(ctx context.Context, pod client.ObjectKey, container string, previous bool) (log string, err error) {
	err = c.call(ctx, "reading the log of a Pod", func(ctx context.Context) error {
		api, err := corev1client.NewForConfigAndClient(c.config, c.http)
		if err != nil {
			return err
		}
		raw, err := api.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes)),
		}).DoRaw(ctx)
		log = string(raw[:min(len(raw), logBytes)])
		return err
	})
	return log, err
}

// CreateNamespace creates a namespace with labels, unless it exists.
func (c *Client) CreateNamespace(ctx context.Context, name string, labelled map[string]string) error {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.SetName(name)
	namespace.SetLabels(labelled)
	return c.call(ctx, "creating "+describe(namespace), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.api.Create(ctx, namespace, client.FieldOwner(FieldManager)))
	})
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
