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

	// compartmentId is the OCID of the compartment in which CAPOCI creates what the cluster consists of.
	// +optional
	CompartmentID string `json:"compartmentId,omitempty"`

	// region is where CAPOCI creates it; by default the region of the principal.
	// +optional
	Region string `json:"region,omitempty"`

	// clientOverrides changes the addresses of OCI that CAPOCI uses for an OCICluster.
	// +optional
	ClientOverrides *ClientOverrides `json:"clientOverrides,omitempty"`

	// hostUrl is clientOverrides of an OCIManagedCluster.
	// +optional
	HostURL *ClientOverrides `json:"hostUrl,omitempty"`
}

// Overrides returns the overrides of either kind, nil if there are none.
func (s *ClusterSpec) Overrides() *ClientOverrides {
	if s.ClientOverrides != nil {
		return s.ClientOverrides
	}
	return s.HostURL
}

// ClientOverrides are those addresses of OCI that Archelon asks, too.
type ClientOverrides struct {
	// identityClientUrl is the URL of OCI's Identity API.
	// +optional
	IdentityClientURL string `json:"identityClientUrl,omitempty"`

	// certOverride is a Secret with certificates of authorities under key cert, in PEM. Its namespace is that of the
	// cluster unless it is given.
	// +optional
	CertOverride *corev1.SecretReference `json:"certOverride,omitempty"`
}

// OCICluster is a self-managed cluster on OCI.
//
// +kubebuilder:object:root=true
type OCICluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitempty"`
}

// ClusterSpec returns what Archelon reads of the spec.
func (c *OCICluster) ClusterSpec() *ClusterSpec { return &c.Spec }

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

// ClusterSpec returns what Archelon reads of the spec.
func (c *OCIManagedCluster) ClusterSpec() *ClusterSpec { return &c.Spec }

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
