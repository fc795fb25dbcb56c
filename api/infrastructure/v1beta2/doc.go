// Package v1beta2 has views of the kinds of Cluster API Provider for OCI (CAPOCI) that Archelon works with: those
// fields that it reads and writes, and no others. CAPOCI's own Go package cannot be used, because it does not compile
// with the controller-runtime of this project.
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

// Kinds of this package.
const (
	// OCIClusterIdentityKind is the only kind that an identityRef may have.
	OCIClusterIdentityKind = "OCIClusterIdentity"
	// OCIClusterKind is the kind of a self-managed cluster on OCI.
	OCIClusterKind = "OCICluster"
	// OCIManagedClusterKind is the kind of a cluster of OCI's Kubernetes engine (OKE).
	OCIManagedClusterKind = "OCIManagedCluster"
)

// GroupVersion is the group and the version of this package. CAPOCI stores this version and serves v1beta1 as well, so
// objects of both are read as this one.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta2"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&OCIClusterIdentity{}, &OCIClusterIdentityList{},
		&OCICluster{}, &OCIClusterList{},
		&OCIManagedCluster{}, &OCIManagedClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// AllowDeletionAnnotation set to "true" on an OCIClusterIdentity or a principal Secret allows to delete it although
// clusters use it, or may use it. They cannot be deleted by CAPOCI then, until there is one again. An identity whose
// cloud credential is gone is then removed by Archelon itself, together with its Secret.
const AllowDeletionAnnotation = "archelon.io/allow-deletion"
