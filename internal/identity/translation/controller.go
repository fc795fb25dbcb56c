package translation

import (
	"context"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "oci-credential-translation"

// Secrets are read and written in two namespaces: that of Rancher's cloud credentials, where two annotations are
// patched, and that of the identities. Permissions do not know annotations, nor metadata, from data.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch,namespace=oci-credentials
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=oci-credentials
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,namespace=oci-translated
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities,verbs=get;create;patch;delete,namespace=oci-translated
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ociclusteridentities/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=ociclusteridentities.infrastructure.cluster.x-k8s.io,verbs=list;watch

// Controller describes the controller of cloud credentials. It is set up in the instance that works in the namespace of
// the identities, and receives nothing in others.
func Controller(
	gate featuregate.Feature, namespace string, setup func(context.Context, controller.Env) error,
) controller.Controller {
	capoci := controller.Product{Name: "CAPOCI", Needed: "Cluster API Provider for OCI with v1beta2"}
	return controller.Controller{
		Name: ControllerName, Package: "identity/translation", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "ociclusteridentities.infrastructure.cluster.x-k8s.io", Version: "v1beta2", Of: capoci},
		},
		Watches: func(scope shard.Scope) []controller.Watch { return watched(namespace, scope) },
		Setup:   setup,
	}
}

func watched(namespace string, scope shard.Scope) []controller.Watch {
	if namespace == "" || !scope.Owns(namespace) {
		return nil // No name would stand for all namespaces.
	}
	return []controller.Watch{
		{Object: &identityv1.OCIClusterIdentity{}},
		{Own: true, Object: identity.SecretMetadata(), By: cache.ByObject{
			Transform:  keepMarks,
			Namespaces: map[string]cache.Config{CredentialNamespace: {}, namespace: {}},
		}},
	}
}
