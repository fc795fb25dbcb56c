// Package v1alpha1 has the kinds by which tenants get hosts: HostClaim and HostDeployPolicy.
//
// Metal3 has kinds of the same names in the same group and version. These here have all fields of them, with the same
// meaning, and those of the proposal of HostClaims besides (docs/adr/0036). The CRDs of Metal3 drop the latter, so what
// works with HostClaims waits for the CRD of this package.
//
// +kubebuilder:object:generate=true
// +groupName=metal3.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Metal3.
const GroupName = "metal3.io"

// Kinds of this package.
const (
	// HostClaimKind is the kind of a request for a host.
	HostClaimKind = "HostClaim"
	// HostDeployPolicyKind is the kind of what says who may claim the hosts of a namespace.
	HostDeployPolicyKind = "HostDeployPolicy"
)

// GroupVersion is the group and the version of this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &HostClaim{}, &HostClaimList{}, &HostDeployPolicy{}, &HostDeployPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
