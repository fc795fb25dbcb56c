package rancher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// projectNamespaces are the namespaces of the two projects that every cluster has. The names stay the same after a
// restart of Rancher.
func projectNamespaces(cluster *unstructured.Unstructured) []string {
	var names []string
	for _, project := range []string{"Default", "System"} {
		sum := sha256.Sum256([]byte(string(cluster.GetUID()) + project))
		names = append(names, cluster.GetName()+"-p-"+hex.EncodeToString(sum[:])[:5])
	}
	return names
}

// ensureProjects creates the namespaces of the projects, once. The projects themselves nobody outside Rancher looks at.
func (r *reactor) ensureProjects(ctx context.Context, cluster *unstructured.Unstructured) error {
	if conditionStatus(cluster, "SystemProjectCreated") == statusTrue {
		return nil
	}
	for _, name := range projectNamespaces(cluster) {
		err := r.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annotationSystemNamespace: "true"},
		}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating namespace %s of a project: %w", name, err)
		}
	}
	return nil
}
