package importer

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// identity knows Rancher's cluster by the UID of its namespace kube-system, which it reads once.
type identity struct {
	mu  sync.Mutex
	uid types.UID
}

// of returns the UID. It lists, within a name: that needs no permission that the watch on Namespaces does not have.
func (i *identity) of(ctx context.Context, reader client.Reader) (types.UID, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uid != "" {
		return i.uid, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := reader.List(ctx, list, client.MatchingFields{"metadata.name": metav1.NamespaceSystem}); err != nil {
		return "", fmt.Errorf("getting namespace %s: %w", metav1.NamespaceSystem, err)
	}
	for n := range list.Items {
		i.uid = list.Items[n].UID
	}
	return i.uid, nil
}
