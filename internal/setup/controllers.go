package setup

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/agentmanifest"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/fleet"
	"github.com/archelon-io/archelon/internal/fleet/agenthealth"
	"github.com/archelon-io/archelon/internal/fleetcluster"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/kinds"
	"github.com/archelon-io/archelon/internal/hostclaim/machines"
	"github.com/archelon-io/archelon/internal/hostclaim/remote"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/identity/translation"
	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/members"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/rolekeeper"
	"github.com/archelon-io/archelon/internal/version"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// controllers returns all controllers of this program. A new one is a line here.
func (p *parts) controllers() []controller.Controller {
	return []controller.Controller{
		rolekeeper.Controller(p.opts.Import, p.setupRoleKeeper),
		importer.Controller(p.opts.Import, p.opts.TurtlesNamespaces, p.origin, p.setupImport),
		identity.Controller(feature.OCIClusterIdentity, identityPolicy(p.opts.Identity), p.setupIdentity),
		translation.Controller(feature.OCICredentialTranslation, p.opts.Credentials.Namespace, p.setupTranslation),
		baremetal.Controller(feature.HostClaim, p.setupBareMetalClaims),
		remote.Controller(feature.HostClaim, baremetal.CRD(), p.setupRemoteClaims),
		kinds.Controller(feature.HostClaim, baremetal.CRD(), handledKinds(), p.setupUnknownClaims),
		machines.Controller(feature.HostClaimMachines, baremetal.CRD(), p.setupClaimMachines),
		fleet.Controller(feature.Fleet, p.setupFleet),
		members.Controller(feature.RancherClusterMembers, p.setupMembers),
		agentmanifest.Controller(feature.AgentManifest, importer.ControllerName, p.setupAgentManifest),
		fleetcluster.Controller(p.opts.Import && p.opts.ClassLabels, p.origin, p.setupFleetClusters),
	}
}

// Controllers returns descriptions of all controllers, for what is generated from them and for
// tests. They cannot be set up.
func Controllers() []controller.Controller { return ControllersOf(true) }

// ControllersOf are those of an instance that imports, or does not.
func ControllersOf(imports bool) []controller.Controller {
	return (&parts{opts: &options.Options{Import: imports}}).controllers()
}

// Permissions says what each package with markers needs its permissions for: a gate, a gate with a minus before it,
// which is for what the import does when the gate is off, the option of a controller, or one of the words below.
func Permissions() map[string]string {
	when := map[string]string{
		"setup":     whenMetrics,
		"rancher":   importer.Option,
		"import/v1": "-" + string(feature.ManagementV3Cluster),
		"import/v3": string(feature.ManagementV3Cluster),
	}
	for _, c := range Controllers() {
		when[c.Package] = string(c.Gate)
		if c.Option != "" {
			when[c.Package] = c.Option
		}
		if c.Isolated {
			when[c.Package] = whenIsolated
		}
	}
	return when
}

// InRancher are the packages with markers whose permissions are needed in Rancher's cluster, wherever Archelon runs.
func InRancher() []string { return []string{"rancher", "import/v1", "import/v3", "fleetcluster"} }

// What permissions may be needed for besides a gate.
const (
	// whenMetrics is that metrics are served, to clients that are asked who they are.
	whenMetrics = "metrics"
	// whenIsolated is that the instance has its permissions in named namespaces.
	whenIsolated = "isolated"
)

// parts are what controllers are set up with.
type parts struct {
	opts  *options.Options
	place *place
	// origin is the management cluster, if Rancher's cluster is another one.
	origin types.UID
	// originName is how people call the management cluster; empty if nobody has said.
	originName string
	// seat is what is held while it is written there; nil if it is this one.
	seat       *seat.Seat
	settings   *rancher.Settings
	downloader *rancher.Downloader
	metrics    *importer.Metrics
	principals principals
	claims     *hostclaim.Metrics

	// agents is what the fleet knows of agents.
	agents agenthealth.Agents

	keeper *rolekeeper.Reconciler
	// keeping is closed when there is a keeper, if there is to be one.
	keeping chan struct{}
}

// setupImport adds the import controller with the strategy that the gate chooses. The role keeper, if there is one,
// tells it where to work no more.
func (p *parts) setupImport(ctx context.Context, env controller.Env) error {
	mgr := env.Manager
	tokens, err := rancher.NewTokens(env.Rancher.GetClient(), env.Rancher.GetAPIReader())
	if err != nil {
		return err
	}
	workloads, err := workload.NewClients(mgr.GetAPIReader(), p.workloadOptions())
	if err != nil {
		return err
	}
	rules, err := ImportRules(p.opts, p.place.member.self, p.place.claim, p.origin, p.originName)
	if err != nil {
		return err
	}
	reconciler := &importer.Reconciler{
		Rules:  rules,
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Rancher: env.Rancher.GetClient(), RancherReader: env.Rancher.GetAPIReader(),
		Recorder:   mgr.GetEventRecorder(importer.ControllerName),
		Settings:   p.settings,
		Tokens:     tokens,
		Downloader: p.downloader,
		Workloads:  workloads,
		Metrics:    p.metrics,
		Jobs:       p.opts.WorkloadConcurrency,

		AgentPodSecurity: p.opts.AgentPodSecurity,
	}
	if p.opts.Gates.Enabled(feature.OCIClusterIdentity) {
		reconciler.Principals = &p.principals
	}
	if !p.kept(ctx) {
		return nil
	}
	reconciler.Withdrawn = p.withdrawn()
	needs := importer.Options{
		Concurrency: p.opts.Concurrency, TokenSecrets: env.RancherOwn, Assigned: env.Own, DisplayNames: env.RancherOwn, Rancher: env.Rancher.GetCache(),
	}
	if p.seat != nil {
		needs.Begin = p.seat.Held()
	}
	if peers := p.place.member.peers; peers != nil {
		reconciler.Runs, reconciler.Keeps, needs.Claimed = peers.Runs, peers.Keeps, peers.Claimed
		needs.InstanceGone, needs.Unselected = peers.Gone, peers.Metrics.Unselected
	}
	if p.opts.Gates.Enabled(feature.Fleet) {
		reconciler.AgentGone, needs.AgentChanges = p.agents.Gone, p.agents.Tell
	}
	return reconciler.SetupWithManager(ctx, mgr, needs)
}

// workloadOptions are those of clients of clusters whose kubeconfigs tenants may write.
func (p *parts) workloadOptions() workload.Options {
	return workload.Options{
		Timeout: p.opts.WorkloadTimeout, UserAgent: version.Get().UserAgent(),
		Allow: kubeconfig.Allow{LocalProxies: p.opts.AllowLocalProxyURLs},
	}
}

// ImportRules are what an instance decides by that has these options, with the strategy that the gate chooses. Origin
// and its name are those of the management cluster, if Rancher is in another one.
func ImportRules(opts *options.Options, self instance.ID, claim instance.Claim, origin types.UID, originName string) (importer.Rules, error) {
	selector, selectorErr := opts.Selector()
	defaults, defaultsErr := opts.AgentDefaults()
	var active, other importer.Strategy = importv1.Strategy{}, importv3.Strategy{}
	if opts.Gates.Enabled(feature.ManagementV3Cluster) {
		active, other = other, active
	}
	others := []importer.Strategy{other}
	if origin != "" {
		others = nil // There are no v1 Rancher clusters of this management cluster in another one.
	}
	return importer.Rules{
		Active:          active,
		Others:          others,
		Origin:          origin,
		OriginName:      originName,
		Self:            self,
		Claim:           claim,
		AdoptTurtles:    opts.AdoptTurtles,
		TurtlesParked:   opts.TurtlesParked,
		DisconnectGrace: opts.AgentDisconnectGrace,
		FleetWorkspaces: opts.FleetWorkspaces,
		Selector:        selector,
		Early:           importer.EarlyImport(opts.EarlyImport),
		DisplayName:     importer.DisplayNameForm(opts.DisplayName),
		AgentSettings:   opts.AgentSettings,
		AgentDefaults:   defaults,
		ClassLabels:     opts.ClassLabels,
		ManualDelivery:  opts.Gates.Enabled(feature.AgentManifest),

		EarlyPerNamespace:     opts.EarlyPerNamespace,
		UnpropagatedLabels:    opts.UnpropagatedLabels,
		PropagatedAnnotations: opts.PropagatedAnnotations,
	}, errors.Join(selectorErr, defaultsErr)
}

// kept waits for the role keeper, if there is to be one. It reports whether there is no more to wait for.
func (p *parts) kept(ctx context.Context) bool {
	if !p.place.isolated {
		return true
	}
	select {
	case <-p.keeping:
		return true
	case <-ctx.Done():
		return false
	}
}

// withdrawn returns what tells which namespaces were taken from this instance, nil if none can be.
func (p *parts) withdrawn() func(context.Context, string) (bool, error) {
	if p.keeper == nil {
		return nil
	}
	return p.keeper.Withdrawn
}

// claimPlace is where controllers of HostClaims work.
func (p *parts) claimPlace() hostclaim.Place {
	place := hostclaim.Place{Scope: p.place.claim.Scope}
	if p.keeper != nil {
		place.Permissions = p.keeper
	}
	return place
}

// setupFleet adds the connections to workload clusters.
func (p *parts) setupFleet(_ context.Context, env controller.Env) error {
	mgr, err := fleet.SetupWithManager(env.Manager, fleet.Options{
		Claim: p.place.claim, Registry: metrics.Registry, Concurrency: p.opts.Concurrency, AllowLocalProxies: p.opts.AllowLocalProxyURLs,
		ClusterOptions: []cluster.Option{agenthealth.ClusterOptions(env.Manager.GetScheme())},
	})
	if err != nil {
		return err
	}
	return agenthealth.AddToManager(mgr, &p.agents)
}

// setupMembers adds the controller of members of Rancher clusters.
func (p *parts) setupMembers(ctx context.Context, env controller.Env) error {
	reconciler := &members.Reconciler{
		Client: env.Manager.GetClient(), APIReader: env.Manager.GetAPIReader(),
		Rancher: env.Rancher.GetClient(), RancherReader: env.Rancher.GetAPIReader(),
		Claim: p.place.claim, Self: p.place.member.self, Policy: p.opts.Members, Recorder: env.Manager.GetEventRecorder(members.ControllerName),
	}
	return reconciler.SetupWithManager(ctx, env.Manager, members.Options{Concurrency: p.opts.Concurrency, Rancher: env.Rancher.GetCache()})
}

// setupAgentManifest adds the controller of the manifests that others apply.
func (p *parts) setupAgentManifest(ctx context.Context, env controller.Env) error {
	tokens, err := rancher.NewTokens(env.Rancher.GetClient(), env.Rancher.GetAPIReader())
	if err != nil {
		return err
	}
	reconciler := &agentmanifest.Reconciler{
		Client: env.Manager.GetClient(), APIReader: env.Manager.GetAPIReader(), Rancher: env.Rancher.GetClient(),
		Settings: p.settings, Tokens: tokens, Downloader: p.downloader,
		Claim: p.place.claim, Self: p.place.member.self, Recorder: env.Manager.GetEventRecorder(agentmanifest.ControllerName),
	}
	return reconciler.SetupWithManager(ctx, env.Manager, agentmanifest.Options{
		Concurrency: p.opts.Concurrency, Rancher: env.Rancher.GetCache(), TokenSecrets: env.RancherOwn,
	})
}

// setupFleetClusters adds the controller of the labels of Fleet Clusters.
func (p *parts) setupFleetClusters(ctx context.Context, env controller.Env) error {
	reconciler := &fleetcluster.Reconciler{
		Client: env.Manager.GetClient(), Rancher: env.Rancher.GetClient(), Claim: p.place.claim, Self: p.place.member.self,
	}
	return reconciler.SetupWithManager(ctx, env.Manager, fleetcluster.Options{
		Concurrency: p.opts.Concurrency, Rancher: env.Rancher.GetCache(),
	})
}

// holdingsOf returns what the controllers hold that are on.
func holdingsOf(opts *options.Options, origin types.UID) []hold.Holding {
	switch {
	case !opts.Import:
		return hold.Claims()
	case opts.Gates.Enabled(feature.HostClaim):
		return hold.From(origin, hold.All())
	default:
		return hold.From(origin, []hold.Holding{hold.Imports()})
	}
}

// setupRoleKeeper adds the controller that lets RoleBindings go.
func (p *parts) setupRoleKeeper(ctx context.Context, env controller.Env) error {
	mgr := env.Manager
	watcher, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("building the client of the role keeper: %w", err)
	}
	keeper := &rolekeeper.Reconciler{
		Watcher: watcher, Client: env.Manager.GetClient(), APIReader: env.Manager.GetAPIReader(), Reviews: p.place.rights.reviews, Bindings: env.Own,
		Self: p.place.member.self, Scope: p.place.claim.Scope, Holdings: holdingsOf(p.opts, p.origin),
	}
	keeper.Lost = func() { p.place.rights.suspectLoss(keeper.Unbound) }
	if err := keeper.SetupWithManager(ctx, env.Manager, env.Own); err != nil {
		return fmt.Errorf("setting up the role keeper: %w", err)
	}
	p.keeper = keeper
	close(p.keeping)
	return nil
}

// setupBareMetalClaims adds the controller of HostClaims of kind baremetal.
func (p *parts) setupBareMetalClaims(ctx context.Context, env controller.Env) error {
	if !p.kept(ctx) {
		return nil
	}
	reconciler := &baremetal.Reconciler{
		Client: env.Manager.GetClient(), Recorder: env.Manager.GetEventRecorder(baremetal.ControllerName),
		Place: p.claimPlace(), Metrics: p.claims, NoClusters: !env.Has(controller.PausingClusters()),
	}
	return reconciler.SetupWithManager(ctx, env.Manager, baremetal.Options{Concurrency: p.opts.Concurrency, Own: env.Own})
}

// handledKinds are those of claims that are handled here.
func handledKinds() []string { return append(baremetal.Kinds(), remote.Kinds()...) }

// setupRemoteClaims adds the controller of HostClaims of kind remote.
func (p *parts) setupRemoteClaims(ctx context.Context, env controller.Env) error {
	if !p.kept(ctx) {
		return nil
	}
	reconciler := &remote.Reconciler{
		Client: env.Manager.GetClient(), Recorder: env.Manager.GetEventRecorder(remote.ControllerName),
		Place: p.claimPlace(), Metrics: p.claims, NoClusters: !env.Has(controller.PausingClusters()),
	}
	return reconciler.SetupWithManager(ctx, env.Manager, remote.Options{
		Concurrency: p.opts.Concurrency, Own: env.Own,
		Workload: p.workloadOptions(),
	})
}

// setupClaimMachines adds the controller of Metal3Machines that get their hosts through HostClaims.
func (p *parts) setupClaimMachines(ctx context.Context, env controller.Env) error {
	if !p.kept(ctx) {
		return nil
	}
	reconciler := &machines.Reconciler{
		Client: env.Manager.GetClient(), Recorder: env.Manager.GetEventRecorder(machines.ControllerName),
		Place: p.claimPlace(),
	}
	return reconciler.SetupWithManager(ctx, env.Manager, machines.Options{Concurrency: p.opts.Concurrency, Own: env.Own})
}

// setupUnknownClaims adds the controller of HostClaims whose kind nobody handles.
func (p *parts) setupUnknownClaims(_ context.Context, env controller.Env) error {
	reconciler := &kinds.Reconciler{Client: env.Manager.GetClient(), Kinds: handledKinds()}
	return reconciler.SetupWithManager(env.Manager, env.Own)
}
