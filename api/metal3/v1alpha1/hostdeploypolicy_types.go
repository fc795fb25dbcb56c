package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostDeployPolicySpec says who may claim the hosts in the namespace of the policy.
type HostDeployPolicySpec struct {
	// hostClaimNamespaces are the namespaces whose claims may have the hosts. Without it, or if none of its fields is
	// set, there are none; nameMatches ".*" is all of them. Otherwise each field that is set has to fit. Where there are
	// several policies, one has to.
	// +optional
	HostClaimNamespaces *HostClaimNamespaces `json:"hostClaimNamespaces,omitempty"`
	// allowUncleanedHosts lets these claims also have hosts that another namespace has used and that were not cleaned,
	// because their automatedCleaningMode is disabled. Their disks can have data of that namespace.
	// +optional
	AllowUncleanedHosts bool `json:"allowUncleanedHosts,omitempty"`
	// allowKeptDisks lets these claims keep what is on the disks of a host that they have when Metal3 deprovisions it, by
	// automatedCleaningMode disabled. A claim that is deleted after that gives back a host that was not cleaned, and
	// claims of other namespaces get such a host only by allowUncleanedHosts.
	// +optional
	AllowKeptDisks bool `json:"allowKeptDisks,omitempty"`
	// metadataCopy selects labels and annotations of the hosts that are copied to the claims which have the hosts, if this
	// policy allows the namespaces of these claims. Where there are several such policies, what one of them selects is
	// copied.
	// +optional
	MetadataCopy *MetadataCopy `json:"metadataCopy,omitempty"`
}

// MetadataCopy selects labels and annotations by their keys. Keys in the domains of Kubernetes and of controllers that
// act on them, such as kubernetes.io, metal3.io and argoproj.io, are never copied.
type MetadataCopy struct {
	// labelsMatch is a regular expression for the whole key of a label. One that cannot be read, or that repeats so much
	// that it takes long to look for, selects nothing.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LabelsMatch string `json:"labelsMatch,omitempty"`
	// annotationsMatch is a regular expression for the whole key of an annotation, as labelsMatch is for labels.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	AnnotationsMatch string `json:"annotationsMatch,omitempty"`
}

// HostClaimNamespaces selects namespaces.
type HostClaimNamespaces struct {
	// names are names of namespaces. An empty list is no namespace.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Names []string `json:"names,omitzero"`
	// nameMatches is a regular expression for the whole name of a namespace. One that repeats so much that it takes
	// long to look for allows nobody.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	NameMatches string `json:"nameMatches,omitempty"`
	// hasLabels are labels that the Namespace must have.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	HasLabels []NameValuePair `json:"hasLabels,omitempty"`
}

// NameValuePair is a label.
type NameValuePair struct {
	// name is the key of the label.
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`
	// value is what the label must be. Empty is for any value.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`
}

// HostDeployPolicyStatus is empty.
type HostDeployPolicyStatus struct{}

// HostDeployPolicy says who may claim the hosts of a namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostdeploypolicies
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:metadata:annotations="archelon.io/feature=host-claim"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostDeployPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says who may claim the hosts.
	// +optional
	Spec HostDeployPolicySpec `json:"spec,omitzero"`
	// status is empty.
	// +optional
	Status HostDeployPolicyStatus `json:"status,omitzero"`
}

// HostDeployPolicyList is a list of HostDeployPolicies.
//
// +kubebuilder:object:root=true
type HostDeployPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []HostDeployPolicy `json:"items"`
}
