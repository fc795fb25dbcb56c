package importer

import (
	"context"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/shard"
)

// Option switches the import off.
const Option = "import"

// Controller describes the import. Turtles may run in some namespaces. The origin is the management cluster, if
// Rancher's cluster is another one.
func Controller(
	on bool, turtlesNamespaces []string, origin types.UID, setup func(context.Context, controller.Env) error,
) controller.Controller {
	crds := []controller.CRD{
		{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
		{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		{Name: "clusterregistrationtokens.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		{Name: "settings.management.cattle.io", Version: "v3", Of: controller.Rancher()},
	}
	if origin == "" {
		crds = append(crds, controller.CRD{Name: "clusters.provisioning.cattle.io", Version: "v1", Of: controller.Rancher()})
	}
	return controller.Controller{
		Name: ControllerName, Package: "import", Option: Option, Off: !on,
		CRDs: crds,
		Watches: func(scope shard.Scope) []controller.Watch {
			return slices.Concat(clusterWatches(origin), sharedWatches(scope, turtlesNamespaces, hold.Origin(origin)), ownWatches(scope))
		},
		Scheme: ownScheme,
		Holds:  hold.Imports().Kinds(),
		Setup:  setup,
	}
}

// clusterWatches are the kinds with a namespace of the scope whose objects may be an import: CAPI clusters, and v1
// Rancher clusters where Rancher is in the same cluster.
func clusterWatches(origin types.UID) []controller.Watch {
	watches := []controller.Watch{{Object: &clusterv1.Cluster{}}}
	if origin == "" {
		watches = append(watches, controller.Watch{
			Object: &provisioningv1.Cluster{}, By: cache.ByObject{Label: controller.Having(archelonv1.OwnedLabel).Add(hold.Origin(origin)), Transform: Reduce}, Rancher: true,
		})
	}
	return watches
}

// sharedWatches limits the shared cache to what an import reads: in the namespaces of the scope CAPI clusters, Rancher
// clusters that name one, and kubeconfig Secrets; of kinds without a namespace what belongs to these namespaces by a
// label; and from all namespaces the registration tokens that Rancher makes, and the Lease of Turtles where that runs.
// Of what comes, transforms keep what is read.
func sharedWatches(scope shard.Scope, turtlesNamespaces []string, origin labels.Requirement) []controller.Watch {
	owned := controller.Having(archelonv1.OwnedLabel).Add(origin)
	inScope, _ := scope.Labelled(archelonv1.OwnerNamespaceLabel).Requirements()
	turtles := map[string]cache.Config{}
	for _, namespace := range turtlesNamespaces {
		turtles[namespace] = cache.Config{}
	}
	return []controller.Watch{
		{Object: secretMetadata()},
		{Object: &managementv3.Cluster{}, By: cache.ByObject{Label: owned.Add(inScope...), Transform: Reduce}, Rancher: true},
		{Object: &managementv3.Setting{}, Rancher: true},
		{Object: &coordinationv1.Lease{}, By: cache.ByObject{Field: controller.Named(archelonv1.TurtlesLease), Namespaces: turtles, Transform: controller.KeepLease}},
		{Object: rancher.NewRegistrationToken(), By: cache.ByObject{
			Field: controller.Named(rancher.DefaultTokenName), Namespaces: controller.Everywhere(), Transform: rancher.ReduceRegistrationToken,
		}, Rancher: true},
		{Object: namespaceMetadata()},
	}
}

// ownWatches are of kinds that the shared cache selects otherwise: the Secrets of Rancher's registration tokens,
// where that has kubeconfigs; the Namespaces of the scope that say who is to import what is in them, with the
// import label or without; and the display names of all v3 Clusters, where that has all there is to know of
// those that belong to the scope.
func ownWatches(scope shard.Scope) []controller.Watch {
	inScope, _ := scope.NamespaceObjects().Requirements()
	return []controller.Watch{
		{Own: true, Object: secretMetadata(), By: cache.ByObject{
			Field: controller.Named(rancher.DefaultTokenSecretName), Namespaces: controller.Everywhere(), Transform: controller.KeepIdentity,
		}, Rancher: true},
		{Own: true, Object: namespaceMetadata(), By: cache.ByObject{
			Label: controller.Having(archelonv1.ManagedByLabel).Add(inScope...), Transform: controller.KeepLabels(archelonv1.ManagedByLabel),
		}},
		{Own: true, Object: &rancher.NamedCluster{}, By: cache.ByObject{Transform: rancher.TrimNamedCluster}, Rancher: true},
	}
}

// ownScheme knows Kubernetes' own kinds and, instead of Rancher's type for v3 Clusters, one that
// holds no more than their names.
func ownScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("building the scheme of the import's own cache: %w", err)
	}
	rancher.AddNamedClusters(s)
	return s, nil
}
