package agentmanifest

import (
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and Events.
const ControllerName = "agent-manifest"

// What is needed in Rancher's cluster is in internal/rancher.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io,verbs=list;watch

// Controller describes the controller, which a gate switches on. It also receives registration tokens, in the form in
// which the import describes them: these are in namespaces of Rancher, not in those of the scope. Their Secrets are in
// the own cache of the import, which has to be named as the one to share.
func Controller(gate featuregate.Feature, shares string, setup func(context.Context, controller.Env) error) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "agentmanifest", Gate: gate, Shares: shares,
		CRDs: []controller.CRD{
			{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: controller.CAPI()},
			{Name: "clusters.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "clusterregistrationtokens.management.cattle.io", Version: "v3", Of: controller.Rancher()},
			{Name: "settings.management.cattle.io", Version: "v3", Of: controller.Rancher()},
		},
		Watches: func(shard.Scope) []controller.Watch {
			return []controller.Watch{
				{Object: &clusterv1.Cluster{}},
				{Object: secretMetadata()},
				{Object: &managementv3.Cluster{}, Rancher: true},
				{Object: &managementv3.Setting{}, Rancher: true},
				{Own: true, Object: secretMetadata(), By: cache.ByObject{
					Field: controller.Named(rancher.DefaultTokenSecretName), Namespaces: controller.Everywhere(), Transform: controller.KeepIdentity,
				}, Rancher: true},
			}
		},
		Setup: setup,
	}
}

func secretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// KeepInput returns a transform of a cache of Secrets' metadata: another one, which also leaves what a manifest was
// made from.
func KeepInput(keep toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		found, ok := object.(*metav1.PartialObjectMetadata)
		if !ok {
			return keep(object)
		}
		input, made := found.Annotations[archelonv1.ManifestInputAnnotation]
		kept, err := keep(object)
		if made && len(input) <= maxInput {
			found.Annotations = map[string]string{archelonv1.ManifestInputAnnotation: input}
		}
		return kept, err
	}
}

// maxInput is longer than a digest of ours.
const maxInput = 128
