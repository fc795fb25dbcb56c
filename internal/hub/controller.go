package hub

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// Secrets are in one namespace, and so are the Events about them, and the Leases that are the seats of
// management clusters, of which nobody knows the names in advance. What is needed in Rancher's cluster
// besides is in internal/rancher.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch,namespace=registrations
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=registrations
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update;delete,namespace=registrations

// Controller describes the hub, whose Secrets are in a namespace. What imports receive from Rancher's cluster is
// received once for all of them: the watches, and the scheme of those in its own cache.
func Controller(
	gate featuregate.Feature, namespace string, imports func(shard.Scope) ([]controller.Watch, func() (*runtime.Scheme, error)),
	setup func(context.Context, controller.Env) error,
) controller.Controller {
	_, scheme := imports(shard.Scope{})
	return controller.Controller{
		Name: ControllerName, Package: "hub", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "clusterregistrationtokens.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "settings.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		},
		Watches: func(scope shard.Scope) []controller.Watch {
			watches, _ := imports(scope)
			return append(watches, controller.Watch{Object: &corev1.Secret{}, By: cache.ByObject{
				Namespaces: map[string]cache.Config{namespace: {LabelSelector: Selector()}}, Transform: Reduce,
			}})
		},
		Scheme: scheme,
		Setup:  setup,
	}
}
