package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrincipalType says what kind of OCI principal an identity stands for.
type PrincipalType string

const (
	// UserPrincipal is an OCI user with an API key, which a Secret holds.
	UserPrincipal PrincipalType = "UserPrincipal"
	// InstancePrincipal is the OCI principal of the instance that the caller runs on. There is no Secret.
	InstancePrincipal PrincipalType = "InstancePrincipal"
	// WorkloadPrincipal is the OCI principal of the ServiceAccount that the caller runs as. There is no Secret.
	WorkloadPrincipal PrincipalType = "Workload"
)

// OCIClusterIdentitySpec says which OCI principal an identity stands for, and from where it may be used.
type OCIClusterIdentitySpec struct {
	// type is the type of the OCI principal: UserPrincipal, InstancePrincipal or Workload.
	Type PrincipalType `json:"type"`

	// principalSecret is the Secret with the API key of a UserPrincipal. Its namespace has no default.
	// +optional
	PrincipalSecret corev1.SecretReference `json:"principalSecret,omitzero"`

	// clientSecret is the name of principalSecret in the proposal of cluster level identity. CAPOCI's CRD does not have
	// it, so there the API server drops it.
	// +optional
	ClientSecret corev1.SecretReference `json:"clientSecret,omitzero"`

	// allowedNamespaces are the namespaces whose clusters may use the identity. Without it no namespace is allowed, an
	// empty object allows all of them. Otherwise a namespace has to be in the list, or to be selected by the selector.
	// +optional
	// +nullable
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`
}

// Secret returns the reference to the Secret, whichever its spelling. It reports false when both are there and differ.
func (s *OCIClusterIdentitySpec) Secret() (corev1.SecretReference, bool) {
	none := corev1.SecretReference{}
	switch {
	case s.PrincipalSecret == none:
		return s.ClientSecret, true
	case s.ClientSecret == none:
		return s.PrincipalSecret, true
	default:
		return s.PrincipalSecret, s.PrincipalSecret == s.ClientSecret
	}
}

// AllowedNamespaces are the namespaces whose clusters may use an identity.
type AllowedNamespaces struct {
	// list has names of namespaces. They are taken literally: there are no wildcards.
	// +optional
	// +nullable
	NamespaceList []string `json:"list,omitzero"`

	// selector selects namespaces by their labels. An empty selector selects none.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// NullList is true if the list is there and is null. CAPOCI takes that for an empty object, which allows all
	// namespaces.
	NullList bool `json:"-"`
}

// Open reports whether it is the empty object, which allows all namespaces.
func (a *AllowedNamespaces) Open() bool {
	return a != nil && a.NamespaceList == nil && !a.NullList && a.Selector == nil
}

// OCIClusterIdentityStatus is the observed state of an identity.
type OCIClusterIdentityStatus struct {
	// conditions are the current state of the identity.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}

// OCIClusterIdentity is an OCI principal that clusters of some namespaces may use.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ociclusteridentities,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type OCIClusterIdentity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OCIClusterIdentitySpec   `json:"spec,omitempty"`
	Status OCIClusterIdentityStatus `json:"status,omitempty"`
}

// OCIClusterIdentityList is a list of identities.
//
// +kubebuilder:object:root=true
type OCIClusterIdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OCIClusterIdentity `json:"items"`
}
