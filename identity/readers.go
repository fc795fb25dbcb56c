package identity

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Readers are where objects are read. A live reader, such as the manager's API reader, says what is there now. A cache
// answers without a request, and needs the permission to list and to watch.
type Readers struct {
	// Identities reads OCIClusterIdentities: as the type of package api/v1beta2 if the scheme of the reader has it, and
	// unstructured otherwise, so that a scheme with CAPOCI's own types will do.
	Identities client.Reader
	// Namespaces reads the metadata of Namespaces. Only an identity with a selector needs it.
	Namespaces client.Reader
	// Secrets reads principal Secrets. It has to be live: a cache would hold API keys in memory, and mostly these of the
	// whole cluster.
	Secrets client.Reader
}

// LiveReaders returns readers that ask the API server for everything.
func LiveReaders(reader client.Reader) Readers {
	return Readers{Identities: reader, Namespaces: reader, Secrets: reader}
}

// Identity returns an identity, nil if there is none.
func (r Readers) Identity(ctx context.Context, key types.NamespacedName) (*identityv1.OCIClusterIdentity, error) {
	if r.Identities == nil {
		return nil, errors.New("there is no reader of OCIClusterIdentities")
	}
	identity := &identityv1.OCIClusterIdentity{}
	err := r.Identities.Get(ctx, key, identity)
	if runtime.IsNotRegisteredError(err) {
		identity, err = readUnstructured(ctx, r.Identities, key)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none is an answer
	case err != nil:
		return nil, fmt.Errorf("reading OCIClusterIdentity %s: %w", key, err)
	}
	return identity, nil
}

// readUnstructured reads an identity by a scheme that does not have its type.
func readUnstructured(
	ctx context.Context, reader client.Reader, key types.NamespacedName,
) (*identityv1.OCIClusterIdentity, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(identityv1.GroupVersion.WithKind(identityv1.OCIClusterIdentityKind))
	if err := reader.Get(ctx, key, object); err != nil {
		return nil, err
	}
	identity := &identityv1.OCIClusterIdentity{}
	return identity, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, identity)
}

// Namespace returns the labels of a Namespace, by a get: a list with the selector of an identity could mean all
// Namespaces.
func (r Readers) Namespace(ctx context.Context, name string) (Namespace, error) {
	if r.Namespaces == nil {
		return Namespace{Name: name}, errors.New("there is no reader of Namespaces")
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	switch err := r.Namespaces.Get(ctx, types.NamespacedName{Name: name}, object); {
	case apierrors.IsNotFound(err):
		return Namespace{Name: name}, nil
	case err != nil:
		return Namespace{Name: name}, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{} // It exists.
	}
	return Namespace{Name: name, Labels: labels}, nil
}

// Secret returns a principal Secret. The caller overwrites its data with Forget.
func (r Readers) Secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	if r.Secrets == nil {
		return nil, errors.New("there is no reader of Secrets")
	}
	secret := &corev1.Secret{}
	if err := r.Secrets.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret, nil
}

// Forget overwrites the data of a Secret that is not needed any more.
func Forget(data map[string][]byte) {
	for name := range data {
		clear(data[name])
	}
}
