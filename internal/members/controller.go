package members

import (
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "rancher-cluster-members"

// Bindings are in namespaces whose names Rancher makes up. None of them is changed: what is in one is immutable. That
// Archelon binds no more than it has itself, Rancher's webhook sees to.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusterroletemplatebindings,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io;clusters.management.cattle.io;clusterroletemplatebindings.management.cattle.io,verbs=list;watch

// Controller describes the controller of members, which a gate switches on.
func Controller(gate featuregate.Feature, setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "members", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
			{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "clusterroletemplatebindings.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		},
		Watches: func(scope shard.Scope) []controller.Watch {
			inScope, _ := scope.Labelled(archelonv1.OwnerNamespaceLabel).Requirements()
			return []controller.Watch{
				{Object: &clusterv1.Cluster{}},
				{Object: &managementv3.Cluster{}, Rancher: true},
				{Object: &managementv3.ClusterRoleTemplateBinding{}, By: cache.ByObject{
					Label: controller.Having(archelonv1.OwnerUIDLabel).Add(inScope...), Namespaces: controller.Everywhere(), Transform: reduce,
				}, Rancher: true},
			}
		},
		Setup: setup,
	}
}

// reduce leaves of a binding what is read of it. Rancher writes the status often.
func reduce(object any) (any, error) {
	if binding, ok := object.(*managementv3.ClusterRoleTemplateBinding); ok {
		binding.ManagedFields, binding.Annotations, binding.Finalizers, binding.OwnerReferences = nil, nil, nil, nil
		binding.Labels = controller.OnlyLabels(
			binding.Labels, archelonv1.OwnerUIDLabel, archelonv1.OwnerNameLabel, archelonv1.OwnerNamespaceLabel)
		binding.Status = managementv3.ClusterRoleTemplateBindingStatus{}
	}
	return object, nil
}
