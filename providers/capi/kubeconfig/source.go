package kubeconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/problem"
)

// Source says where the kubeconfig of a cluster is.
type Source struct {
	// Secret holds it.
	Secret types.NamespacedName
	// Key is the one of the Secret's data.
	Key string
	// Author says in a message whom to look at if there is no Secret.
	Author string
	// Label and Cluster, if they are set, are a label that the Secret has to have, and its value: the cluster that the
	// Secret is for. A Secret of another cluster is not used.
	Label, Cluster string
	// Name and UID, if they are set, are those of the Cluster. A Secret is not used that belongs to another Cluster of the
	// name: to an earlier one, which was deleted and whose Secret has not gone yet.
	Name string
	UID  types.UID
	// Context is that of the kubeconfig; its current one if it is empty. Annotation, if it is set, is the one that
	// asks for the context.
	Context, Annotation string
}

// Read returns the kubeconfig, whatever it is. That there is none is a Problem. Of a Secret that belongs to others, it
// says the same as of one that does not exist: who asks may not be allowed to know.
func (s Source) Read(ctx context.Context, secrets client.Reader) ([]byte, error) {
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, s.Secret, secret)
	switch foreign := s.Label != "" && secret.Labels[s.Label] != s.Cluster; {
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("getting kubeconfig Secret %s: %w", s.Secret, err)
	case foreign:
		return nil, missing("No Secret %s with label %s: %q exists, which annotation %s names. Correct the annotation, create the Secret, "+
			"or set that label on the Secret. A Secret without the label is not read",
			s.Secret, s.Label, s.Cluster, SecretAnnotation)
	case err == nil && s.earlier(secret):
		return nil, missing("Secret %s belongs to an earlier Cluster of the name, which was deleted. After 5 minutes, check %s", s.Secret.Name, s.Author)
	case err != nil:
		return nil, missing("Secret %s with the kubeconfig does not exist yet. After 5 minutes, check %s", s.Secret.Name, s.Author)
	case len(secret.Data[s.Key]) == 0:
		return nil, missing("Secret %s has no kubeconfig under key %s. Correct the Secret", s.Secret.Name, s.Key)
	}
	return secret.Data[s.Key], nil
}

// earlier reports whether a Secret belongs to another Cluster of the name.
func (s Source) earlier(secret *corev1.Secret) bool {
	return s.UID != "" && slices.ContainsFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return group == clusterv1.GroupVersion.Group && owner.Kind == "Cluster" && owner.Name == s.Name && owner.UID != s.UID
	})
}

func missing(format string, args ...any) error {
	return problem.Wait(MissingReason, format, args...)
}
