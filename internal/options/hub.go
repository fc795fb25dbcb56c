package options

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/feature"
)

// addHubFlags binds where management clusters are registered.
func (o *Options) addHubFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ManagementClustersNamespace, "management-clusters-namespace", o.ManagementClustersNamespace,
		"Namespace of the Secrets that register management clusters, for gate management-clusters.")
}

// validateHub reports what does not go together with many management clusters.
func (o *Options) validateHub() error {
	if !o.Gates.Enabled(feature.ManagementClusters) {
		return nil
	}
	var problems []error
	if len(validation.IsDNS1123Label(o.ManagementClustersNamespace)) > 0 {
		problems = append(problems, fmt.Errorf("--management-clusters-namespace %q must be the name of a namespace", o.ManagementClustersNamespace))
	}
	if !o.Gates.Enabled(feature.ManagementV3Cluster) {
		problems = append(problems, fmt.Errorf("gate %s needs gate %s: a v1 Rancher cluster belongs into the namespace of its CAPI Cluster, "+
			"which is in another cluster", feature.ManagementClusters, feature.ManagementV3Cluster))
	}
	for _, gate := range []featuregate.Feature{
		feature.RemoteRancher, feature.OCIClusterIdentity, feature.OCICredentialTranslation, feature.HostClaim, feature.HostClaimMachines, feature.Fleet,
		feature.RancherClusterMembers,
	} {
		if o.Gates.Enabled(gate) {
			problems = append(problems, fmt.Errorf("gate %s cannot be used with gate %s: switch it off", gate, feature.ManagementClusters))
		}
	}
	for flag, set := range map[string]bool{
		"namespace": len(o.Namespaces) > 0, "excluded-namespace": len(o.ExcludedNamespaces) > 0, "namespace-selector": o.NamespaceSelector != "",
		"adopt-turtles": o.AdoptTurtles, "turtles-parked": o.TurtlesParked,
	} {
		if set {
			problems = append(problems, fmt.Errorf("--%s cannot be used with gate %s: leave it out", flag, feature.ManagementClusters))
		}
	}
	return errors.Join(problems...)
}
