// Package options holds the command line of the manager.
package options

import (
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // adds --logging-format=json

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/edge/seat"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/members"
	"github.com/archelon-io/archelon/internal/shard"
)

// maxVerbosity is the highest log level, the highest that this project uses. From level 8 on client-go logs the
// bodies of requests, which hold kubeconfigs and registration tokens, and at level 5 controller-runtime's queue
// logs itself without a lock.
const maxVerbosity = 4

// Options are the settings of the manager. New returns the defaults, which suit a single instance in its own cluster.
type Options struct {
	// Version asks for the version, and for nothing else.
	Version bool

	// LeaderElect has the process wait for its turn. Without it, and outside of Pods, it takes the Lease at once from a
	// process that has none of it either.
	LeaderElect bool
	// LeaderElectNamespace is the coordination namespace, where the Leases of all instances are; by default the
	// namespace that the manager runs in.
	LeaderElectNamespace string
	// LeaderElectLeaseDuration is how long others wait before they take over a Lease that is not renewed.
	LeaderElectLeaseDuration time.Duration
	// LeaderElectRenewDeadline is how long the leader tries to renew its Lease before it gives up.
	LeaderElectRenewDeadline time.Duration
	// LeaderElectRetryPeriod is the pause between tries.
	LeaderElectRetryPeriod time.Duration

	// MetricsBindAddress serves metrics over HTTPS to authorized clients; "0" switches it off.
	MetricsBindAddress string
	// HealthProbeBindAddress serves /healthz and /readyz; "0" switches it off.
	HealthProbeBindAddress string
	// ProfilerAddress serves net/http/pprof if set.
	ProfilerAddress string

	// Import has CAPI Clusters imported into Rancher. Without it, the kinds of both need not exist.
	Import bool

	// Namespaces are those to work in; none stands for all.
	Namespaces []string
	// ExcludedNamespaces are those not to work in, even if they are among Namespaces.
	ExcludedNamespaces []string
	// Instance names this instance among those that share a management cluster; empty stands for a name
	// that follows from the scope.
	Instance string
	// NamespaceSelector limits the import to namespaces whose labels match.
	NamespaceSelector string
	// WatchFilter limits the import to CAPI Clusters whose label cluster.x-k8s.io/watch-filter has this value.
	WatchFilter string
	// AdoptTurtles takes over records that Rancher Turtles made.
	AdoptTurtles bool
	// TurtlesParked says that Rancher Turtles runs with an importer that is parked.
	TurtlesParked bool
	// TurtlesNamespaces are where Rancher Turtles runs, if it does: its Lease counts nowhere else.
	TurtlesNamespaces []string
	// FleetWorkspaces are those that a CAPI Cluster may ask for by annotation.
	FleetWorkspaces []string
	// ImportSelector, ImportClasses and ImportNamespaces select CAPI Clusters that are imported without the import label.
	ImportSelector   string
	ImportClasses    []string
	ImportNamespaces []string
	// EarlyImport says which Rancher clusters are created before control planes are available. A namespace has
	// EarlyPerNamespace of them at most.
	EarlyImport       string
	EarlyPerNamespace int
	// DisplayName is how new v3 Rancher clusters are called.
	DisplayName string
	// AgentSettings are those parts of the Deployment of Rancher's agent that a CAPI Cluster may set by annotation.
	AgentSettings []string
	// AgentDefaultEnv and AgentDefaultTolerations are settings of Rancher's agent for all clusters: variables, each as
	// NAME=VALUE, and a list of tolerations in YAML or JSON.
	AgentDefaultEnv         []string
	AgentDefaultTolerations string
	// AgentPodSecurity is the level of Pod Security of namespace cattle-system where Archelon creates it; empty for none.
	AgentPodSecurity string
	// UnpropagatedLabels are keys and patterns of labels that Rancher clusters do not get from their CAPI Clusters.
	UnpropagatedLabels []string
	// PropagatedAnnotations are keys and patterns of annotations that Rancher clusters get from their CAPI Clusters.
	PropagatedAnnotations []string
	// ClassLabels labels Rancher clusters with the ClusterClass of the CAPI Cluster.
	ClassLabels bool
	// Members are the roles in Rancher clusters that CAPI Clusters may ask for, and for whom, with
	// gate rancher-cluster-members.
	Members members.Policy
	// SyncPeriod is how often every object is looked at without an event.
	SyncPeriod time.Duration
	// Concurrency is how many clusters are reconciled at the same time.
	Concurrency int
	// WorkloadConcurrency is how many workload clusters are worked on at the same time.
	WorkloadConcurrency int
	// KubeAPIQPS and KubeAPIBurst limit requests to the management cluster; a negative QPS lifts the limit.
	KubeAPIQPS   float32
	KubeAPIBurst int

	// ManifestTimeout bounds the download of Rancher's import manifest.
	ManifestTimeout time.Duration
	// ManifestMaxBytes is the largest import manifest that is accepted, in bytes.
	ManifestMaxBytes int64
	// WorkloadTimeout bounds each request to a workload cluster.
	WorkloadTimeout time.Duration
	// AllowLocalProxyURLs accepts kubeconfigs whose proxy-url leads to a loopback or link-local address.
	AllowLocalProxyURLs bool
	// AgentDisconnectGrace is how long an agent may be disconnected before anything is done about it.
	AgentDisconnectGrace time.Duration
	// InsecureSkipTLSVerify trusts whoever answers under Rancher's address. For development only.
	InsecureSkipTLSVerify bool

	// Identity are the settings of gate oci-cluster-identity.
	Identity Identity

	// Credentials are the settings of gate oci-credential-translation.
	Credentials Credentials

	// RancherKubeconfig is the Secret with the kubeconfig of Rancher's cluster, as
	// "namespace/name", for gate remote-rancher.
	RancherKubeconfig string
	// RancherNamespace is the namespace of Rancher's cluster with the seat of this management cluster.
	RancherNamespace string
	// ManagementClusterName is how people call this management cluster, for gate remote-rancher: a DNS label. Optional.
	ManagementClusterName string
	// Seat are the times that the seat is kept by. No flag changes them: all that can serve a management
	// cluster have to have the same.
	Seat seat.Timing
	// RancherAway is for how long a Rancher in another cluster has not answered when CAPI Clusters that are being deleted
	// are released without it. No flag changes it.
	RancherAway time.Duration

	// Gates are the feature gates.
	Gates featuregate.MutableFeatureGate
	// Logs are the settings of the log.
	Logs *logsapi.LoggingConfiguration
}

// New returns the default options.
func New() (*Options, error) {
	gates, err := feature.NewGates()
	if err != nil {
		return nil, fmt.Errorf("defining feature gates: %w", err)
	}
	return &Options{
		Import:                   true,
		LeaderElect:              true,
		LeaderElectLeaseDuration: 15 * time.Second,
		LeaderElectRenewDeadline: 10 * time.Second,
		LeaderElectRetryPeriod:   2 * time.Second,
		MetricsBindAddress:       ":8443",
		HealthProbeBindAddress:   ":9440",
		TurtlesNamespaces:        []string{"cattle-turtles-system", "rancher-turtles-system"},
		FleetWorkspaces:          []string{"fleet-default"},
		SyncPeriod:               10 * time.Minute,
		Concurrency:              10,
		WorkloadConcurrency:      100,
		KubeAPIQPS:               500,
		KubeAPIBurst:             1000,
		ManifestTimeout:          30 * time.Second,
		ManifestMaxBytes:         4 << 20,
		WorkloadTimeout:          10 * time.Second,
		AgentDisconnectGrace:     45 * time.Second,
		RancherNamespace:         "archelon-system",
		Seat:                     seat.DefaultTiming(),
		RancherAway:              10 * time.Minute,
		EarlyImport:              string(importer.EarlyNever),
		DisplayName:              string(importer.NameForm),
		EarlyPerNamespace:        10,
		Identity:                 Identity{VerifyTimeout: 10 * time.Second},

		Gates: gates,
		Logs:  logsapi.NewLoggingConfiguration(),
	}, nil
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Version, "version", o.Version,
		"Print version, commit, version of Go and platform, and exit.")
	o.addProcessFlags(fs)
	o.addScopeFlags(fs)
	o.addSelectorFlags(fs)
	o.addTenantFlags(fs)
	o.addLimitFlags(fs)
	o.Identity.addFlags(fs)
	o.Credentials.addFlags(fs)
	o.addRancherFlags(fs)
	fs.BoolVar(&o.InsecureSkipTLSVerify, "insecure-skip-tls-verify", o.InsecureSkipTLSVerify,
		"Do not verify Rancher's certificate at the download of the manifest. For development only.")
	o.Gates.AddFlag(fs)
	logsapi.AddFlags(o.Logs, fs)
	// controller-runtime registers it and reads it.
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		fs.AddGoFlag(kubeconfig)
	}
	o.describe(fs)
}

// addProcessFlags binds what the process elects its leader by, and serves.
func (o *Options) addProcessFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Wait for the Lease <instance>-leader-election while another process holds it. With false, for development: take it at once from a process that also has false, which then ends. Pods always wait.")
	fs.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", o.LeaderElectNamespace,
		"Coordination namespace, with the Leases of all instances. Required outside of Pods. Default: the namespace of the Pod.")
	fs.DurationVar(&o.LeaderElectLeaseDuration, "leader-elect-lease-duration", o.LeaderElectLeaseDuration,
		"After how long others take over a Lease that is not renewed, in whole seconds. It must exceed --leader-elect-renew-deadline.")
	fs.DurationVar(&o.LeaderElectRenewDeadline, "leader-elect-renew-deadline", o.LeaderElectRenewDeadline,
		"How long the leader tries to renew its Lease. It must exceed 1.2 times --leader-elect-retry-period.")
	fs.DurationVar(&o.LeaderElectRetryPeriod, "leader-elect-retry-period", o.LeaderElectRetryPeriod,
		"Pause between tries for the Lease.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"Address of the metrics, over HTTPS, for clients that may GET /metrics. 0: off.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress,
		"Address of /healthz and /readyz. 0: off.")
	fs.StringVar(&o.ProfilerAddress, "profiler-address", o.ProfilerAddress,
		"Address of net/http/pprof, for example localhost:6060.")
}

// addScopeFlags binds what the instance works on, and what it may do there.
func (o *Options) addScopeFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Namespaces, "namespace", o.Namespaces,
		"Namespace to work in; at most 1,000. Default: all.")
	fs.StringSliceVar(&o.ExcludedNamespaces, "excluded-namespace", o.ExcludedNamespaces,
		"Namespace not to work in; at most 1,000. It wins over --namespace.")
	fs.StringVar(&o.NamespaceSelector, "namespace-selector", o.NamespaceSelector,
		"Import only what is in namespaces with these labels, which may change.")
	fs.StringVar(&o.Instance, "instance", o.Instance,
		"Name of this instance. Default: archelon, with a suffix that follows from --namespace, --excluded-namespace and --namespace-selector.")
	fs.StringVar(&o.WatchFilter, "watch-filter", o.WatchFilter,
		"Import only CAPI Clusters whose label cluster.x-k8s.io/watch-filter has this value.")
	fs.BoolVar(&o.AdoptTurtles, "adopt-turtles", o.AdoptTurtles,
		"Take over Rancher clusters of Rancher Turtles, unless archelon.io/managed-by says otherwise.")
	fs.BoolVar(&o.TurtlesParked, "turtles-parked", o.TurtlesParked,
		"The importer of Rancher Turtles is parked. Import although Turtles runs.")
	fs.StringSliceVar(&o.TurtlesNamespaces, "turtles-namespace", o.TurtlesNamespaces,
		"Namespace of Rancher Turtles. While its Lease is held there, nothing new is imported, unless --turtles-parked.")
	fs.StringSliceVar(&o.FleetWorkspaces, "fleet-workspace", o.FleetWorkspaces,
		"Fleet workspace that annotation archelon.io/fleet-workspace may name. Tenants get what Fleet deploys there, Secrets included.")
}

// addLimitFlags binds how much is done at the same time, how often, and how long it may take.
func (o *Options) addLimitFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.SyncPeriod, "sync-period", o.SyncPeriod,
		"How often every object is looked at without an event.")
	fs.IntVar(&o.Concurrency, "concurrency", o.Concurrency,
		"Clusters that are reconciled at the same time.")
	fs.IntVar(&o.WorkloadConcurrency, "workload-concurrency", o.WorkloadConcurrency,
		"Workload clusters that are worked on at the same time.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS,
		"Requests per second to the management cluster. Negative: no limit.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst,
		"Requests that may exceed --kube-api-qps for a moment.")
	fs.DurationVar(&o.ManifestTimeout, "manifest-timeout", o.ManifestTimeout,
		"Time limit for the download of the manifest.")
	fs.Int64Var(&o.ManifestMaxBytes, "manifest-max-bytes", o.ManifestMaxBytes,
		"Largest manifest, in bytes.")
	fs.DurationVar(&o.WorkloadTimeout, "workload-timeout", o.WorkloadTimeout,
		"Time limit for each request to a workload cluster.")
	fs.DurationVar(&o.AgentDisconnectGrace, "agent-disconnect-grace", o.AgentDisconnectGrace,
		"How long a connected agent may be away before the condition says so. A restart of Rancher disconnects all for a moment.")
}

// leaderElectionFits reports whether client-go would elect a leader with these durations: a Lease has
// whole seconds, and tries jitter.
func (o *Options) leaderElectionFits() bool {
	retry := time.Duration(leaderelection.JitterFactor * float64(o.LeaderElectRetryPeriod))
	return o.LeaderElectRetryPeriod > 0 && o.LeaderElectRenewDeadline > retry && o.LeaderElectLeaseDuration.Truncate(time.Second) > o.LeaderElectRenewDeadline
}

// Scope is what --namespace and --excluded-namespace say.
func (o *Options) Scope() (shard.Scope, error) {
	return shard.New(o.Namespaces, o.ExcludedNamespaces)
}

// Complete fills in what follows from other options and returns notes for the log on what it changed.
func (o *Options) Complete() []string {
	var notes []string
	if o.Logs.Verbosity > maxVerbosity {
		o.Logs.Verbosity = maxVerbosity
		notes = append(notes, fmt.Sprintf("The log level is limited to %d: high above it, client libraries log request bodies, which hold credentials", maxVerbosity))
	}
	if len(o.Logs.VModule) > 0 {
		o.Logs.VModule = nil
		notes = append(notes, "--vmodule is ignored: it could make client libraries log request bodies, which hold credentials")
	}
	for _, name := range o.Namespaces {
		if slices.Contains(o.ExcludedNamespaces, name) {
			notes = append(notes, fmt.Sprintf("Namespace %s is in --namespace and in --excluded-namespace: it is excluded", name))
		}
	}
	return notes
}
