// Package v1beta2 has the kind OCIClusterIdentity of Cluster API Provider for OCI (CAPOCI): the fields of its proposal
// and of its released versions, and the conditions that Archelon sets. CAPOCI's own Go package cannot be used, because
// it does not compile with the controller-runtime of this module.
//
// An object that was decoded into one of these types has lost all other fields. So it is never written as a whole:
// it is patched. What is created has no other fields.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of CAPOCI, which it shares with other providers of infrastructure.
const GroupName = "infrastructure.cluster.x-k8s.io"

// OCIClusterIdentityKind is the only kind that an identityRef may have.
const OCIClusterIdentityKind = "OCIClusterIdentity"

// GroupVersion is the group and the version of this package. CAPOCI stores this version and serves v1beta1 as well, so
// objects of both are read as this one.
//
//nolint:gochecknoglobals // a constant that Go cannot have
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta2"}

// AddToScheme registers the types of this package with a scheme. A scheme that has CAPOCI's own types must not have
// these as well: the resolver does without.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &OCIClusterIdentity{}, &OCIClusterIdentityList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
