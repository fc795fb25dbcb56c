package machines

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "hostclaim-machines"

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims,verbs=get;list;watch;create;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;create;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hostclaims.metal3.io;baremetalhosts.metal3.io;metal3machines.infrastructure.cluster.x-k8s.io;clusters.cluster.x-k8s.io,verbs=list;watch

// Controller describes the controller of Metal3Machines. It holds nothing: claims and proxies go with their Machine.
func Controller(
	gate featuregate.Feature, crd controller.CRD, setup func(context.Context, controller.Env) error,
) controller.Controller {
	operator := controller.Product{Name: "Metal3", Needed: "baremetal-operator 0.13 or newer"}
	provider := controller.Product{Name: "CAPM3", Needed: "the Metal3 provider of Cluster API, 1.13 or newer"}
	return controller.Controller{
		Name: ControllerName, Package: "hostclaim/machines", Gate: gate,
		CRDs: []controller.CRD{
			crd,
			{Name: "baremetalhosts.metal3.io", Version: "v1alpha1", Of: operator},
			{Name: "metal3machines.infrastructure.cluster.x-k8s.io", Version: machineKind().Version, Of: provider},
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
		},
		Watches: watched,
		Setup:   setup,
	}
}

// watched are all Metal3Machines, and what was created for them: the API server selects that.
func watched(shard.Scope) []controller.Watch {
	created := cache.ByObject{Label: controller.Having(metal3v1.MachineLabel)}
	claims := cache.ByObject{Label: created.Label, Transform: hostclaim.KeepClaim}
	return []controller.Watch{
		{Object: &clusterv1.Cluster{}},
		{Own: true, Object: newMachine(), By: cache.ByObject{Transform: keepRequest}},
		{Own: true, Object: &metal3v1.HostClaim{}, By: claims},
		{Own: true, Object: &bmov1.BareMetalHost{}, By: created},
	}
}
