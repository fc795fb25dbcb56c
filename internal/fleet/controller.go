package fleet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "fleet"

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io,verbs=list;watch

// Controller describes the fleet, which a gate switches on.
func Controller(gate featuregate.Feature, setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "fleet", Gate: gate,
		CRDs: []controller.CRD{{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()}},
		Watches: func(shard.Scope) []controller.Watch {
			return []controller.Watch{
				{Object: &clusterv1.Cluster{}},
				{Object: controller.MetadataOf(corev1.SchemeGroupVersion, "Secret")},
			}
		},
		Setup: setup,
	}
}
