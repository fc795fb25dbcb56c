package rolekeeper

import (
	"context"

	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// controllerName is that of the controller.
const controllerName = "role-keeper"

// The markers say what it does by itself. What it releases it finds and changes by these, too.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=archelon-isolated,verbs=list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=archelon-isolated,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=list;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io;clusters.provisioning.cattle.io,verbs=list;watch

// Controller describes the role keeper.
func Controller(setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: controllerName, Package: "rolekeeper", Isolated: true,
		CRDs: []controller.CRD{
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
			{Name: "clusters.provisioning.cattle.io", Version: "v1", Of: controller.Rancher()},
		},
		Watches: func(shard.Scope) []controller.Watch {
			return []controller.Watch{
				{Object: &clusterv1.Cluster{}},
				{Object: &provisioningv1.Cluster{}},
				// One may be withdrawn together with its namespace's place in the scope.
				{Own: true, Object: bindingMetadata(), By: cache.ByObject{Field: controller.Named(roleBinding), Namespaces: controller.Everywhere()}},
			}
		},
		Holds: []schema.GroupVersionKind{rbacv1.SchemeGroupVersion.WithKind("RoleBinding")},
		Setup: setup,
	}
}
