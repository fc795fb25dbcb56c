package options

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/edge"
)

// addRancherFlags binds where Rancher is.
func (o *Options) addRancherFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.RancherKubeconfig, "rancher-kubeconfig", o.RancherKubeconfig,
		"Secret NAMESPACE/NAME with the kubeconfig of Rancher's cluster under key value, for gate remote-rancher.")
	fs.StringVar(&o.RancherNamespace, "rancher-namespace", o.RancherNamespace,
		"Namespace of the Rancher side of the chart, for gate remote-rancher.")
	fs.StringVar(&o.ManagementClusterName, "management-cluster-name", o.ManagementClusterName,
		"What is added to names of Rancher clusters that are taken, for gate remote-rancher.")
}

// RancherSecret is the Secret that RancherKubeconfig names.
func (o *Options) RancherSecret() types.NamespacedName {
	return edge.Secret(o.RancherKubeconfig)
}

// validateRancher reports what does not go together with a Rancher in another cluster.
func (o *Options) validateRancher() error {
	if !o.Gates.Enabled(feature.RemoteRancher) {
		if o.RancherKubeconfig != "" {
			return fmt.Errorf("--rancher-kubeconfig is for gate %s: switch it on, or leave the flag out", feature.RemoteRancher)
		}
		if o.ManagementClusterName != "" {
			return fmt.Errorf("--management-cluster-name is for gate %s: switch it on, or leave the flag out", feature.RemoteRancher)
		}
		return nil
	}
	var problems []error
	secret := o.RancherSecret()
	if len(validation.IsDNS1123Label(secret.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(secret.Name)) > 0 {
		problems = append(problems, fmt.Errorf("--rancher-kubeconfig %q must be NAMESPACE/NAME of a Secret", o.RancherKubeconfig))
	}
	if len(validation.IsDNS1123Label(o.RancherNamespace)) > 0 {
		problems = append(problems, fmt.Errorf("--rancher-namespace %q must be the name of a namespace", o.RancherNamespace))
	}
	if o.ManagementClusterName != "" && len(validation.IsDNS1123Label(o.ManagementClusterName)) > 0 {
		problems = append(problems, fmt.Errorf("--management-cluster-name %q must be a DNS label: small letters, digits and hyphens", o.ManagementClusterName))
	}
	if !o.Gates.Enabled(feature.ManagementV3Cluster) {
		problems = append(problems, fmt.Errorf("gate %s needs gate %s: a v1 Rancher cluster belongs into the namespace of its CAPI Cluster, "+
			"which is in another cluster", feature.RemoteRancher, feature.ManagementV3Cluster))
	}
	if o.Gates.Enabled(feature.OCICredentialTranslation) {
		problems = append(problems, fmt.Errorf("gate %s reads what Rancher has in its own cluster: it cannot be used with gate %s",
			feature.OCICredentialTranslation, feature.RemoteRancher))
	}
	if o.Gates.Enabled(feature.RancherClusterMembers) {
		problems = append(problems, fmt.Errorf("gate %s cannot be used with gate %s yet: switch it off", feature.RancherClusterMembers, feature.RemoteRancher))
	}
	if o.AdoptTurtles {
		problems = append(problems, fmt.Errorf("--adopt-turtles cannot be used with gate %s: Rancher Turtles runs in Rancher's cluster", feature.RemoteRancher))
	}
	if len(o.Namespaces) > 0 {
		problems = append(problems, fmt.Errorf("gate %s cannot be used with --namespace yet: leave it out, or use --excluded-namespace", feature.RemoteRancher))
	}
	return errors.Join(problems...)
}
