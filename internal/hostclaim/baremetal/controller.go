package baremetal

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "hostclaim-baremetal"

// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostdeploypolicies,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hostclaims.metal3.io;hostdeploypolicies.metal3.io;baremetalhosts.metal3.io,verbs=list;watch

// Controller describes the controller of claims of kind baremetal. What carries its finalizer is not released when
// Archelon is uninstalled: a claim that is not held loses its host to nobody, and nobody cleans it.
func Controller(gate featuregate.Feature, setup func(context.Context, controller.Env) error) controller.Controller {
	ours := controller.Product{Name: "Archelon", Needed: "the CRDs of its chart: crds.install"}
	return controller.Controller{
		Name: ControllerName, Package: "hostclaim/baremetal", Gate: gate,
		CRDs: []controller.CRD{
			{Name: "hostclaims.metal3.io", Version: "v1alpha1", Of: ours, Selectable: ".spec.kind"},
			{Name: "hostdeploypolicies.metal3.io", Version: "v1alpha1", Of: ours},
			{Name: "baremetalhosts.metal3.io", Version: "v1alpha1", Of: controller.Product{
				Name: "Metal3", Needed: "baremetal-operator 0.13 or newer",
			}},
		},
		Watches: watched,
		Setup:   setup,
	}
}

// watched are the claims of this kind alone: the API server selects them. A list can have one of its two names, so the
// other one is in the controller's own cache, as are the labels of all Namespaces of the scope.
func watched(scope shard.Scope) []controller.Watch {
	return []controller.Watch{
		{Object: &metal3v1.HostClaim{}, By: cache.ByObject{Field: ofKind(metal3v1.KindBareMetal)}},
		{Object: &bmov1.BareMetalHost{}, By: cache.ByObject{Transform: trimHost}},
		{Object: &metal3v1.HostDeployPolicy{}},
		{Own: true, Object: &metal3v1.HostClaim{}, By: cache.ByObject{Field: ofKind(metal3v1.KindBareMetalHost)}},
		{Own: true, Object: namespaceMetadata(), By: cache.ByObject{Label: scope.NamespaceObjects(), Transform: keepLabels}},
	}
}

func ofKind(kind string) fields.Selector { return fields.OneTermEqualSelector("spec.kind", kind) }

// trimHost drops what is large and not read.
func trimHost(object any) (any, error) {
	host, ok := object.(*bmov1.BareMetalHost)
	if !ok {
		return object, nil
	}
	host.ManagedFields = nil
	if details := host.Status.HardwareDetails; details != nil {
		host.Status.HardwareDetails = &bmov1.HardwareDetails{NIC: details.NIC, Hostname: details.Hostname}
	}
	return host, nil
}

// keepLabels leaves the name and the labels of a Namespace.
func keepLabels(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.ObjectMeta = metav1.ObjectMeta{
			Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion, Labels: found.Labels,
		}
	}
	return object, nil
}
