// Package v1beta2 has views of the kinds of clusters of Cluster API Provider for OCI (CAPOCI) that Archelon works with:
// those fields that it reads, and no others. The kind OCIClusterIdentity is in the module identity.
//
// An object that was decoded into one of these types has lost all other fields. So it is never written as a whole:
// it is patched.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Kinds of this package.
const (
	// OCIClusterKind is the kind of a self-managed cluster on OCI.
	OCIClusterKind = "OCICluster"
	// OCIManagedClusterKind is the kind of a cluster of OCI's Kubernetes engine (OKE).
	OCIManagedClusterKind = "OCIManagedCluster"
)

// AddToScheme registers the kinds of CAPOCI with a scheme: clusters, and their identities.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(identityv1.GroupVersion,
		&OCICluster{}, &OCIClusterList{},
		&OCIManagedCluster{}, &OCIManagedClusterList{})
	metav1.AddToGroupVersion(s, identityv1.GroupVersion)
	return identityv1.AddToScheme(s)
}

// AllowDeletionAnnotation set to "true" on an OCIClusterIdentity or a principal Secret allows to delete it although
// clusters use it, or may use it. They cannot be deleted by CAPOCI then, until there is one again. An identity whose
// cloud credential is gone is then removed by Archelon itself, together with its Secret.
const AllowDeletionAnnotation = "archelon.io/allow-deletion"
