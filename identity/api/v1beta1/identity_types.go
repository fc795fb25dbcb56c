// Package v1beta1 is the version of the proposal of cluster level identity. It exists for the CRD of Archelon, which
// serves both versions: the API server sends objects of either as the other, for they have the same fields.
//
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// OCIClusterIdentity is an OCI principal that clusters of some namespaces may use.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ociclusteridentities,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type OCIClusterIdentity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   identityv1.OCIClusterIdentitySpec   `json:"spec,omitempty"`
	Status identityv1.OCIClusterIdentityStatus `json:"status,omitempty"`
}
