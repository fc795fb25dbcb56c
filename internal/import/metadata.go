package importer

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func namespaceMetadata() client.Object { return metadataOf("Namespace") }

func secretMetadata() *metav1.PartialObjectMetadata { return metadataOf("Secret") }

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// versionOf returns what changes with every write to a Secret, "" if there is none. It reads from a cache of metadata.
func versionOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (version string, created time.Time, err error) {
	secret := secretMetadata()
	if err := reader.Get(ctx, key, secret); err != nil {
		return "", time.Time{}, client.IgnoreNotFound(err)
	}
	return string(secret.UID) + "/" + secret.ResourceVersion, secret.CreationTimestamp.Time, nil
}
