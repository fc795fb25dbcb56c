package hostclaim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Role is what a Secret of a claim is for.
type Role string

// Roles.
const (
	// UserData is for the first boot.
	UserData Role = "userdata"
	// MetaData is for the first boot.
	MetaData Role = "metadata"
	// NetworkData configures the network.
	NetworkData Role = "networkdata"
	// ImageAuth is for the registry of the image.
	ImageAuth Role = "imageauth"
)

// Roles returns all.
func Roles() []Role { return []Role{UserData, MetaData, NetworkData, ImageAuth} }

// Reason returns that of the condition Synchronized.
func (r Role) Reason() string {
	return map[Role]string{
		UserData: metal3v1.UserDataSecretSyncFailureReason, MetaData: metal3v1.MetaDataSecretSyncFailureReason,
		NetworkData: metal3v1.NetworkDataSecretSyncFailureReason, ImageAuth: metal3v1.ImageSecretSyncFailureReason,
	}[r]
}

// Sources returns the Secrets that a claim names.
func Sources(claim *metal3v1.HostClaim) map[Role]corev1.SecretReference {
	named := map[Role]corev1.SecretReference{}
	for r, ref := range map[Role]*corev1.SecretReference{
		UserData: claim.Spec.UserData, MetaData: claim.Spec.MetaData, NetworkData: claim.Spec.NetworkData,
	} {
		if ref != nil && ref.Name != "" {
			named[r] = *ref
		}
	}
	if image := claim.Spec.Image; image != nil && image.OCIAuthSecretName != "" {
		named[ImageAuth] = corev1.SecretReference{Name: image.OCIAuthSecretName}
	}
	return named
}

// MayRead reports whether a claim may name a Secret: those of its own namespace alone.
func MayRead(claim *metal3v1.HostClaim, ref corev1.SecretReference) bool {
	return ref.Namespace == "" || ref.Namespace == claim.Namespace
}

// Version names a state of a Secret in the value of a label.
func Version(secret *metav1.PartialObjectMetadata) string {
	return string(secret.UID) + "." + secret.ResourceVersion
}
