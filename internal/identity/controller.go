package identity

import (
	"context"

	"k8s.io/component-base/featuregate"

	oci "github.com/archelon-io/archelon/identity"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "oci-cluster-identity"

// The namespaces of some rules are named by the policy: principal Secrets live in these of the first kind and nowhere
// else, and identities of the others are read wherever the instance works. List and watch of Secrets are for their
// metadata: permissions know no difference.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities,verbs=list;watch,namespace=oci-trusted
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusters;ocimanagedclusters,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,namespace=oci-secrets
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=ociclusteridentities.infrastructure.cluster.x-k8s.io;ociclusters.infrastructure.cluster.x-k8s.io;ocimanagedclusters.infrastructure.cluster.x-k8s.io,verbs=list;watch

// Controller describes the controller of OCIClusterIdentities, which a gate switches on.
func Controller(
	gate featuregate.Feature, policy oci.Policy, setup func(context.Context, controller.Env) error,
) controller.Controller {
	capoci := controller.Product{Name: "CAPOCI", Needed: "Cluster API Provider for OCI with v1beta2"}
	return controller.Controller{
		Name: ControllerName, Package: "identity", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "ociclusteridentities.infrastructure.cluster.x-k8s.io", Version: "v1beta2", Of: capoci},
			{Name: "ociclusters.infrastructure.cluster.x-k8s.io", Version: "v1beta2", Of: capoci},
			{Name: "ocimanagedclusters.infrastructure.cluster.x-k8s.io", Version: "v1beta2", Of: capoci},
		},
		Watches: func(scope shard.Scope) []controller.Watch { return Scope{Shard: scope, Policy: policy}.Watches() },
		Setup:   setup,
	}
}
