package fleetcluster

import (
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs and metrics.
const ControllerName = "fleet-cluster-labels"

// Option switches the controller on.
const Option = "cluster-class-labels"

// rancherLabel is the label by which Rancher names the v3 Rancher cluster of a Fleet Cluster.
const rancherLabel = "management.cattle.io/cluster-name"

// The import needs what there is to read of CAPI Clusters and Rancher clusters, so that is not repeated here. Fleet
// Clusters are in Rancher's cluster, in the namespaces of Fleet workspaces.
//
// +kubebuilder:rbac:groups=fleet.cattle.io,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.fleet.cattle.io,verbs=list;watch

// Controller describes the controller of the labels of Fleet Clusters. The origin is the management cluster, if
// Rancher's cluster is another one.
func Controller(on bool, origin types.UID, setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "fleetcluster", Option: Option, Off: !on, Optional: true,
		CRDs: []controller.CRD{
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
			{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "clusters.fleet.cattle.io", Version: "v1alpha1", Of: controller.Rancher()},
		},
		Watches: func(shard.Scope) []controller.Watch {
			return []controller.Watch{
				{Object: &clusterv1.Cluster{}},
				{Object: &managementv3.Cluster{}, Rancher: true},
				// Rancher copies these labels from the Rancher cluster.
				{Object: fleetCluster(), By: cache.ByObject{
					Label:      controller.Having(archelonv1.OwnerUIDLabel).Add(hold.Origin(origin)),
					Namespaces: controller.Everywhere(),
					Transform:  controller.KeepLabels(archelonv1.OwnerUIDLabel, rancherLabel, keys().Name, keys().Namespace),
				}, Rancher: true},
			}
		},
		Setup: setup,
	}
}

// fleetVersion is the API of Fleet.
func fleetVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "fleet.cattle.io", Version: "v1alpha1"}
}

// fleetCluster is a Fleet Cluster without spec and status.
func fleetCluster() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(fleetVersion(), "Cluster")
}
