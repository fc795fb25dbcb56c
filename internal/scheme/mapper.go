package scheme

import (
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Mapper returns a RESTMapper of the kinds that the manager works with. Being static, it needs no discovery: the
// manager can start before the CRDs of CAPI and Rancher are installed.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		corev1.SchemeGroupVersion.WithKind("Namespace"):                        meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Secret"):                           meta.RESTScopeNamespace,
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):                      meta.RESTScopeNamespace,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                    meta.RESTScopeNamespace,
		clusterv1.GroupVersion.WithKind("Cluster"):                             meta.RESTScopeNamespace,
		managementv3.SchemeGroupVersion.WithKind("Cluster"):                    meta.RESTScopeRoot,
		managementv3.SchemeGroupVersion.WithKind("ClusterRegistrationToken"):   meta.RESTScopeNamespace,
		managementv3.SchemeGroupVersion.WithKind("ClusterRoleTemplateBinding"): meta.RESTScopeNamespace,
		managementv3.SchemeGroupVersion.WithKind("Setting"):                    meta.RESTScopeRoot,
		provisioningv1.SchemeGroupVersion.WithKind("Cluster"):                  meta.RESTScopeNamespace,
		identityv1.GroupVersion.WithKind(identityv1.OCIClusterIdentityKind):    meta.RESTScopeNamespace,
		identityv1.GroupVersion.WithKind(infrav1.OCIClusterKind):               meta.RESTScopeNamespace,
		identityv1.GroupVersion.WithKind(infrav1.OCIManagedClusterKind):        meta.RESTScopeNamespace,
		bmov1.GroupVersion.WithKind("BareMetalHost"):                           meta.RESTScopeNamespace,
		metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind):                 meta.RESTScopeNamespace,
		metal3v1.GroupVersion.WithKind(metal3v1.HostDeployPolicyKind):          meta.RESTScopeNamespace,
	} {
		mapper.Add(gvk, scope)
		// A cache of several namespaces asks whether a list has a namespace, as of kinds.
		mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), scope)
	}
	for _, kind := range []string{"Metal3Machine", "Metal3MachineList"} { // This project has no types of them.
		mapper.Add(schema.GroupVersionKind{Group: identityv1.GroupName, Version: "v1beta1", Kind: kind}, meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Cluster", "ClusterList"} { // Of Fleet Clusters, metadata alone are read.
		fleet := schema.GroupVersionKind{Group: "fleet.cattle.io", Version: "v1alpha1", Kind: kind}
		mapper.Add(fleet, meta.RESTScopeNamespace)
	}
	// Its plural is its singular.
	hardware := bmov1.GroupVersion.WithResource("hardwaredata")
	mapper.AddSpecific(bmov1.GroupVersion.WithKind("HardwareData"), hardware, hardware, meta.RESTScopeNamespace)
	mapper.AddSpecific(bmov1.GroupVersion.WithKind("HardwareDataList"), hardware, hardware, meta.RESTScopeNamespace)
	return mapper
}
