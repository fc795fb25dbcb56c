// Package scheme builds the one scheme that production code and tests share.
package scheme

import (
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// New returns a scheme that knows the kinds this project reads and writes: those of
// Kubernetes itself, CAPI's core/v1beta2, Rancher's management.cattle.io/v3 and
// provisioning.cattle.io/v1, of CAPOCI's infrastructure/v1beta2 what is read, and in metal3.io/v1alpha1
// our own and Metal3's hosts.
func New() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		clusterv1.AddToScheme,
		managementv3.AddToScheme,
		provisioningv1.AddToScheme,
		infrav1.AddToScheme,
		metal3v1.AddToScheme,
		addHosts,
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addHosts registers Metal3's hosts, and not its HostClaim: that kind is ours.
func addHosts(s *runtime.Scheme) error {
	s.AddKnownTypes(bmov1.GroupVersion, &bmov1.BareMetalHost{}, &bmov1.BareMetalHostList{}, &bmov1.HardwareData{})
	return nil
}
