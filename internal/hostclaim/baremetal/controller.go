package baremetal

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "hostclaim-baremetal"

// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostdeploypolicies,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hostclaims.metal3.io;hostdeploypolicies.metal3.io;baremetalhosts.metal3.io;hardwaredata.metal3.io;clusters.cluster.x-k8s.io,verbs=list;watch

func archelon() controller.Product {
	return controller.Product{Name: "Archelon", Needed: "the CRDs of its chart: crds.install"}
}

// CRD is that of HostClaims. Metal3 has one of the same name, which does not know kinds.
func CRD() controller.CRD {
	return controller.CRD{
		Name: "hostclaims.metal3.io", Version: "v1alpha1", Of: archelon(), Selectable: ".spec.kind",
		Fields: []string{
			"spec.args", "spec.credentials", "spec.identityRef", "spec.kind", "spec.online", "status.pendingHost", "status.remote",
		},
	}
}

// Kinds are the names of the kind that this controller handles.
func Kinds() []string { return []string{metal3v1.KindBareMetal, metal3v1.KindBareMetalHost} }

// Controller describes the controller of claims of kind baremetal. A claim that is released when Archelon
// is uninstalled keeps its host: its consumerRef stays, and the host is cleaned by an installation to
// come if the claim is gone then.
func Controller(gate featuregate.Feature, setup func(context.Context, controller.Env) error) controller.Controller {
	metal3 := controller.Product{Name: "Metal3", Needed: "baremetal-operator 0.13 or newer"}
	return controller.Controller{
		Name: ControllerName, Package: "hostclaim/baremetal", Gate: gate,
		CRDs: []controller.CRD{
			CRD(),
			{Name: "hostdeploypolicies.metal3.io", Version: "v1alpha1", Of: archelon()},
			{Name: "baremetalhosts.metal3.io", Version: "v1alpha1", Of: metal3},
			{Name: "hardwaredata.metal3.io", Version: "v1alpha1", Of: metal3},
			controller.PausingClusters(),
		},
		Watches: watched,
		Holds:   []schema.GroupVersionKind{metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind)},
		Setup:   setup,
	}
}

// watched are the claims of this kind alone: the API server selects them. A list can have one of its two names, so the
// other one is in the controller's own cache, as are the labels of all Namespaces of the scope.
func watched(scope shard.Scope) []controller.Watch {
	return []controller.Watch{
		{Object: &metal3v1.HostClaim{}, By: ofKind(metal3v1.KindBareMetal)},
		{Object: &bmov1.BareMetalHost{}, By: cache.ByObject{Transform: trimHost}},
		{Object: &metal3v1.HostDeployPolicy{}, By: cache.ByObject{Transform: hostclaim.KeepPolicy}},
		{Object: &clusterv1.Cluster{}},
		{Own: true, Object: &metal3v1.HostClaim{}, By: ofKind(metal3v1.KindBareMetalHost)},
		{Own: true, Object: namespaceMetadata(), By: cache.ByObject{Label: scope.NamespaceObjects(), Transform: controller.KeepAllLabels}},
		{Own: true, Object: secretMetadata(), By: cache.ByObject{Transform: controller.KeepLabels(metal3v1.SourceLabel, metal3v1.ClaimUIDLabel)}},
		{Own: true, Object: hardwareMetadata(), By: cache.ByObject{Transform: controller.KeepIdentity}},
	}
}

func ofKind(kind string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("spec.kind", kind), Transform: hostclaim.KeepClaim}
}

// trimHost drops what is large and not read. All labels stay: claims select by them, and policies copy them.
func trimHost(object any) (any, error) {
	host, ok := object.(*bmov1.BareMetalHost)
	if !ok {
		return object, nil
	}
	host.ManagedFields, host.Annotations = nil, hostclaim.KeepHostAnnotations(host.Annotations)
	if details := host.Status.HardwareDetails; details != nil {
		host.Status.HardwareDetails = &bmov1.HardwareDetails{NIC: details.NIC, Hostname: details.Hostname}
	}
	return host, nil
}
