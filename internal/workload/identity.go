package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// UID returns the UID of namespace kube-system, by which clusters are told from each other; empty without that namespace.
func (c *Client) UID(ctx context.Context) (types.UID, error) {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.call(ctx, "getting Namespace "+metav1.NamespaceSystem, func(ctx context.Context) error {
		return client.IgnoreNotFound(c.api.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace))
	})
	return namespace.GetUID(), err
}
