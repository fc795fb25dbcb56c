package rolekeeper

import (
	"context"
	"slices"

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

// The markers say what it does by itself. What it releases it finds and changes by the permissions of the controllers
// that hold it.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=archelon-isolated,verbs=list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=archelon-isolated,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Controller describes the role keeper. If the instance imports, it looks for what the import holds.
func Controller(imports bool, setup func(context.Context, controller.Env) error) controller.Controller {
	// One may be withdrawn together with its namespace's place in the scope.
	watches := []controller.Watch{
		{Own: true, Object: bindingMetadata(), By: cache.ByObject{Field: controller.Named(roleBinding), Namespaces: controller.Everywhere()}},
	}
	var crds []controller.CRD
	if imports {
		crds = []controller.CRD{
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
			{Name: "clusters.provisioning.cattle.io", Version: "v1", Of: controller.Rancher()},
		}
		watches = append(watches, controller.Watch{Object: &clusterv1.Cluster{}}, controller.Watch{Object: &provisioningv1.Cluster{}})
	}
	return controller.Controller{
		Name: controllerName, Package: "rolekeeper", Isolated: true, CRDs: crds,
		Watches: func(shard.Scope) []controller.Watch { return slices.Clone(watches) },
		Holds:   []schema.GroupVersionKind{rbacv1.SchemeGroupVersion.WithKind("RoleBinding")},
		Setup:   setup,
	}
}
