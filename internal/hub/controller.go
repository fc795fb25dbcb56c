package hub

import (
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// Secrets are in one namespace, and so are the Events about them. What is needed in Rancher's cluster besides is in internal/rancher.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch,namespace=registrations
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=registrations

// Controller describes the hub, whose Secrets are in a namespace.
func Controller(gate featuregate.Feature, namespace string, setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "hub", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "clusterregistrationtokens.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "settings.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		},
		Watches: func(shard.Scope) []controller.Watch {
			return []controller.Watch{
				{Object: &managementv3.Setting{}},
				{Object: &corev1.Secret{}, By: cache.ByObject{
					Namespaces: map[string]cache.Config{namespace: {LabelSelector: Selector()}}, Transform: Reduce,
				}},
			}
		},
		Setup: setup,
	}
}
