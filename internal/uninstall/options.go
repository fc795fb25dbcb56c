// Package uninstall lets go of everything that an instance holds, when the instance is uninstalled for good: it stops
// the manager, and takes the finalizers of this project off CAPI clusters, Rancher clusters and RoleBindings. Rancher
// clusters and their agents stay, unless it is told to delete them. It may be interrupted and run again at any time.
//
// The chart runs it as a pre-delete hook. It needs these rights, everywhere that the instance works:
//
//	list, patch of clusters.cluster.x-k8s.io, clusters.provisioning.cattle.io and clusters.management.cattle.io
//	get of them, and delete of the latter two, with --delete-rancher-clusters
//	list, patch of hostclaims.metal3.io and secrets, with --host-claims; these alone with --import=false
//
// if it works in named namespaces,
//
//	get and patch of RoleBinding archelon-isolated there
//	get of these namespaces
//
// in the coordination namespace, list of Leases, and get and delete of its own by name; and in its own namespace, by
// name, get and patch of deployments/scale.
package uninstall

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/shard"
)

// Options say what is uninstalled.
type Options struct {
	// Namespaces, ExcludedNamespaces, and WatchFilter are those of the instance.
	Namespaces, ExcludedNamespaces []string
	WatchFilter                    string
	// Instance is the name of the instance.
	Instance string
	// InstanceNamespace is the namespace of the instance and of its Deployment.
	InstanceNamespace string
	// LeaderElectNamespace is the namespace of the Leases of all instances; that of the instance if it is empty.
	LeaderElectNamespace string
	// Deployment is that of the manager. It is scaled to zero; empty means that the manager does not run.
	Deployment string
	// Import is whether the manager imports. Without it, nothing of CAPI and Rancher is looked for.
	Import bool
	// HostClaims is whether the manager has feature host-claim.
	HostClaims bool
	// OnlyHostClaims releases HostClaims and nothing else, of a manager that goes on without the feature.
	OnlyHostClaims bool
	// DeleteRancherClusters deletes the Rancher clusters that the instance made.
	DeleteRancherClusters bool
	// RancherKubeconfig is the Secret with the kubeconfig of Rancher's cluster, as "namespace/name",
	// if that is another cluster.
	RancherKubeconfig string
	// RancherNamespace is the namespace of Rancher's cluster with the Lease of this management cluster.
	RancherNamespace string
	// LeaveRancher releases what is in the management cluster, and makes no request to Rancher's cluster.
	LeaveRancher bool
	// Yes confirms it. Without it, what would be released is printed and nothing is written.
	Yes bool
	// Timeout bounds all of it.
	Timeout time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Import: true, RancherNamespace: "archelon-system", Timeout: 5 * time.Minute}
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Namespaces, "namespace", o.Namespaces, "As the manager has it: namespace that it works in; repeatable.")
	fs.StringSliceVar(&o.ExcludedNamespaces, "excluded-namespace", o.ExcludedNamespaces, "As the manager has it: namespace that it does not work in; repeatable.")
	fs.StringVar(&o.WatchFilter, "watch-filter", o.WatchFilter, "As the manager has it: value of the label cluster.x-k8s.io/watch-filter.")
	fs.StringVar(&o.Instance, "instance", o.Instance, "Name of the instance.")
	fs.StringVar(&o.InstanceNamespace, "instance-namespace", o.InstanceNamespace, "Namespace of the instance, with its Deployment.")
	fs.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", o.LeaderElectNamespace,
		"As the manager has it: namespace of the Leases of all instances. Default: that of the instance.")
	fs.StringVar(&o.Deployment, "deployment", o.Deployment, "Deployment of the manager, which is scaled to zero first. Default: none, the manager does not run any more.")
	fs.BoolVar(&o.Import, "import", o.Import, "As the manager has it. With false, CAPI Clusters and Rancher clusters are not looked at: it needs --host-claims.")
	fs.BoolVar(&o.HostClaims, "host-claims", o.HostClaims, "Release HostClaims as well: the manager has feature host-claim. Their hosts stay as they are.")
	fs.BoolVar(&o.OnlyHostClaims, "only-host-claims", o.OnlyHostClaims, "Release HostClaims and nothing else, of a manager that goes on without feature host-claim.")
	fs.BoolVar(&o.DeleteRancherClusters, "delete-rancher-clusters", o.DeleteRancherClusters, "Delete the Rancher clusters that this instance made. Their agents are removed by Rancher.")
	fs.StringVar(&o.RancherKubeconfig, "rancher-kubeconfig", o.RancherKubeconfig,
		"As the manager has it: Secret NAMESPACE/NAME with the kubeconfig of Rancher's cluster.")
	fs.StringVar(&o.RancherNamespace, "rancher-namespace", o.RancherNamespace,
		"As the manager has it: namespace of Rancher's cluster with the Lease of this management cluster.")
	fs.BoolVar(&o.LeaveRancher, "leave-rancher", o.LeaveRancher,
		"Release what is in the management cluster, and make no request to Rancher's cluster, which --rancher-kubeconfig "+
			"says is another one. For a Rancher that is away or gone.")
	fs.BoolVar(&o.Yes, "yes", o.Yes, "Do it. Without this flag, what would be released is printed, and nothing is changed.")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "Time limit for all of it. When it is over, what is left is printed; run it again.")
}

// Validate reports every option that cannot be used, in sentences.
func (o *Options) Validate() error {
	var problems []error
	if o.Instance == "" {
		problems = append(problems, errors.New("--instance must name the instance"))
	}
	if o.InstanceNamespace == "" {
		problems = append(problems, errors.New("--instance-namespace must name the namespace of the instance"))
	}
	if o.Timeout <= 0 {
		problems = append(problems, errors.New("--timeout must be greater than zero"))
	}
	if o.OnlyHostClaims && (o.DeleteRancherClusters || o.Deployment != "") {
		problems = append(problems, errors.New("--only-host-claims deletes nothing and stops nothing: take out --delete-rancher-clusters and --deployment"))
	}
	if !o.Import && (!o.HostClaims && !o.OnlyHostClaims || o.DeleteRancherClusters || o.RancherKubeconfig != "") {
		problems = append(problems, errors.New("--import=false is for a manager with HostClaims and without Rancher: add --host-claims, and take out --delete-rancher-clusters and --rancher-kubeconfig"))
	}
	if o.LeaveRancher && o.RancherKubeconfig == "" {
		problems = append(problems, errors.New("--leave-rancher is for a Rancher in another cluster: add --rancher-kubeconfig, as the manager has it"))
	}
	if o.LeaveRancher && o.DeleteRancherClusters {
		problems = append(problems, errors.New("--leave-rancher makes no request to Rancher: take out --delete-rancher-clusters"))
	}
	if _, err := o.scope(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// holdings are what is released.
func (o *Options) holdings() []hold.Holding {
	switch {
	case o.OnlyHostClaims || !o.Import:
		return hold.Claims()
	case o.HostClaims:
		return hold.All()
	default:
		return []hold.Holding{hold.Imports()}
	}
}

// here are the holdings without what was created in Rancher's cluster.
func here(holdings []hold.Holding) []hold.Holding {
	for i := range holdings {
		holdings[i].Beside, holdings[i].Apart = nil, nil
	}
	return holdings
}

func (o *Options) scope() (shard.Scope, error) {
	return shard.New(o.Namespaces, o.ExcludedNamespaces)
}
