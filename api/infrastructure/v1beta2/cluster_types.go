package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSpec is what Archelon reads of the spec of an OCICluster or an OCIManagedCluster.
type ClusterSpec struct {
	// identityRef names the identity that CAPOCI works with for the cluster. Its namespace is that of the cluster
	// unless it is given.
	// +optional
	IdentityRef *corev1.ObjectReference `json:"identityRef,omitempty"`
}

// OCICluster is a self-managed cluster on OCI.
//
// +kubebuilder:object:root=true
type OCICluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitempty"`
}

// IdentityRef returns the reference of the cluster to its identity, nil if it has none.
func (c *OCICluster) IdentityRef() *corev1.ObjectReference { return c.Spec.IdentityRef }

// OCIClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type OCIClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OCICluster `json:"items"`
}

// OCIManagedCluster is a cluster of OCI's Kubernetes engine (OKE).
//
// +kubebuilder:object:root=true
type OCIManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitempty"`
}

// IdentityRef returns the reference of the cluster to its identity, nil if it has none.
func (c *OCIManagedCluster) IdentityRef() *corev1.ObjectReference { return c.Spec.IdentityRef }

// OCIManagedClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type OCIManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OCIManagedCluster `json:"items"`
}
