// Package setup turns options into a running manager: caches, client, metrics, probes, lease, and the controllers
// that the feature gates ask for.
package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/hostclaim"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/outage"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/scrape"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/internal/version"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Run runs the manager until the context ends, or until what it was built for has changed: it returns nil then, and the
// process is to be started again, as the kubelet does. It starts without the CRDs of CAPI and Rancher, says
// which it waits for, and begins to work when they are there. Tests that run managers in their own process
// change what the manager is built with.
func Run(ctx context.Context, config *rest.Config, opts *options.Options, changes ...func(*ctrl.Options)) error {
	config = rest.CopyConfig(config)
	config.QPS = opts.KubeAPIQPS
	config.Burst = opts.KubeAPIBurst
	config.UserAgent = version.Get().UserAgent()

	meters, err := newMeters()
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	p := &process{config: config, opts: opts, changes: changes, meters: meters, logger: ctrl.Log.WithName("setup")}
	return p.run(ctx)
}

// process is what this process is started with.
type process struct {
	config  *rest.Config
	opts    *options.Options
	changes []func(*ctrl.Options)
	meters  *meters
	logger  logr.Logger
	// remote is Rancher's cluster, if that is not the management cluster.
	remote *otherRancher
}

// run finds out where the instance may work, and runs a manager for that until the context ends or the answer changes.
func (p *process) run(ctx context.Context) error {
	ctx, end := newEnding(ctx, p.logger)
	defer end.cancel()
	var err error
	if p.remote, err = p.connect(ctx); err != nil {
		return ignoreStop(ctx, err)
	}
	place, err := p.place(ctx)
	if err != nil || ctx.Err() != nil {
		return ignoreStop(ctx, err)
	}
	return p.work(ctx, place, end)
}

// meters are the metrics of this process.
type meters struct {
	imports   *importer.Metrics
	claims    *hostclaim.Metrics
	instances *instance.Metrics
	orphans   *outage.Metrics
	synced    prometheus.Gauge
	lacking   prometheus.Gauge
}

func newMeters() (*meters, error) {
	imports, err := importer.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	claims, err := hostclaim.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	instances, err := instance.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	orphans, err := outage.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	if err := registerBuild(metrics.Registry, version.Get()); err != nil {
		return nil, err
	}
	synced, err := newSynced(metrics.Registry)
	if err != nil {
		return nil, err
	}
	lacking, err := newLacking(metrics.Registry)
	if err != nil {
		return nil, err
	}
	return &meters{
		imports: imports, claims: claims, instances: instances, orphans: orphans, synced: synced, lacking: lacking,
	}, nil
}

// work runs the manager until the context ends.
func (p *process) work(ctx context.Context, place *place, end *ending) error {
	s, err := scheme.New()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	lock, err := place.member.turns(place.claim.Scope)
	if err != nil {
		return err
	}
	defer place.member.leave()
	downloader, err := rancher.NewDownloader(rancher.DownloaderOptions{
		Timeout:               p.opts.ManifestTimeout,
		MaxBytes:              p.opts.ManifestMaxBytes,
		InsecureSkipTLSVerify: p.opts.InsecureSkipTLSVerify,
	})
	if err != nil {
		return err
	}
	defer downloader.Close()
	p.meters.instances.Works(place.member.self, place.claim)
	parts := &parts{
		opts: p.opts, place: place, origin: p.remote.originOf(), originName: p.opts.ManagementClusterName, downloader: downloader, metrics: p.meters.imports, claims: p.meters.claims, keeping: make(chan struct{}),
	}
	if parts.seat, err = p.seat(ctx, place, end); err != nil {
		return err
	}
	on := controller.On(parts.controllers(), p.opts.Gates, place.isolated)
	settings, err := p.managerOptions(s, on, place.claim.Scope, lock)
	if err != nil {
		return err
	}
	config := place.member.guard(p.config)
	mgr, err := ctrl.NewManager(config, settings)
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	there, err := p.remote.cluster(mgr, guardOf(place.member, parts.seat), on, place.claim.Scope, p.opts.SyncPeriod, end)
	if err != nil {
		return err
	}
	if parts.settings, err = rancher.NewSettings(there.GetClient()); err != nil {
		return err
	}
	synced, report := p.synced()
	running := p.running(parts, place, mgr.GetAPIReader(), report, end)
	if err := running.add(mgr, config, there, on, place.claim.Scope, p.opts.SyncPeriod); err != nil {
		return err
	}
	if err := p.accompany(mgr, parts, running.checks(), there, end); err != nil {
		return err
	}
	if err := p.addOutage(mgr, place, there, synced); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		if why := place.member.lapsed(); why != "" {
			end.because(why) // It was frozen or cut off, and has lost its Lease by that.
			return nil
		}
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// running returns what runs controllers. It calls synced when their caches have what there is.
func (p *process) running(
	parts *parts, place *place, live client.Reader, synced func(), end *ending,
) *running {
	return &running{
		settings: parts.settings, synced: synced, logger: p.logger, seat: parts.seat,
		conversion: newConversion(live, place.claim.Scope, p.logger),
		replaced: func(controller, crd, cause string) {
			end.because("A CRD is not the one any more that this process works with",
				"controller", controller, "crd", crd, "cause", cause)
			place.member.tell("CRDReplaced", cause) // What writes has ended by now, whatever the request takes.
		},
		created: func(controller, crd string) {
			end.because("A CRD exists now that this process works without", "controller", controller, "crd", crd)
		},
		imports: p.opts.Import,
	}
}

// synced returns a channel that is closed when caches are synced, and what is called then.
func (p *process) synced() (synced <-chan struct{}, report func()) {
	closed := make(chan struct{})
	return closed, func() {
		p.meters.synced.Set(1)
		close(closed)
	}
}

// accompany adds what is done beside the controllers.
func (p *process) accompany(
	mgr ctrl.Manager, parts *parts, checks map[string]healthz.Checker, there cluster.Cluster, end *ending,
) error {
	if err := mgr.Add(everywhere(func(ctx context.Context) error { parts.place.watch(ctx, end); return nil })); err != nil {
		return fmt.Errorf("adding the watch over permissions: %w", err)
	}
	if err := addSeat(mgr, parts.place.member, parts.seat); err != nil {
		return err
	}
	if err := addProbes(mgr, checks); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !seated(ctx, parts.seat) {
			return nil
		}
		return p.leaveBehind(ctx, parts.place, mgr, there)
	})); err != nil {
		return fmt.Errorf("adding what leaves namespaces: %w", err)
	}
	return nil
}

// leavePause is the pause before another look at a namespace in which something was let go, or could not be.
const leavePause = 5 * time.Second

// leaveBehind lets go of what this instance holds in namespaces that were taken out of its scope: nobody else would
// take the finalizers off. Where it may not look any more there is nothing that it can do: it is the role keeper that
// lets go before a RoleBinding is gone.
func (p *process) leaveBehind(ctx context.Context, place *place, mgr ctrl.Manager, where cluster.Cluster) error {
	reader, writer := p.remote.both(mgr, where)
	for _, namespace := range place.member.left() {
		// It ends with the context only: what fails is tried again.
		err := wait.PollUntilContextCancel(ctx, leavePause, true, func(ctx context.Context) (bool, error) {
			if place.rights.ask(ctx, namespace) != "" {
				return true, nil
			}
			found, err := hold.Leave(
				ctx, reader, writer, place.member.stillHeld(holdingsOf(p.opts, p.remote.originOf()), namespace), namespace, place.member.self.String(),
			)
			if err != nil && ctx.Err() == nil {
				p.logger.Error(err, "Letting go of what is held in a namespace that is not this instance's any more failed; trying again", "namespace", namespace)
			}
			return err == nil && found == 0, nil
		})
		if err == nil {
			place.member.hasLeft(namespace) // The next renewal of the Lease says so.
		}
	}
	return nil
}

func (p *process) managerOptions(s *runtime.Scheme, on []controller.Controller, scope shard.Scope, lock resourcelock.Interface) (ctrl.Options, error) {
	opts := p.opts
	settings := serverOptions(opts)
	var err error
	if settings.Cache, err = cacheOptions(p.remote.here(on), scope, opts); err != nil {
		return settings, err
	}
	settings.Scheme = s
	settings.Client = clientOptions()
	settings.PprofBindAddress = opts.ProfilerAddress
	// What a cache cannot list yet does not end the process: its next one could not do that either. Readiness says why.
	settings.Controller.CacheSyncTimeout = year
	settings.LeaderElection = true
	settings.LeaderElectionReleaseOnCancel = true
	settings.LeaderElectionResourceLockInterface = lock
	settings.LeaseDuration = &opts.LeaderElectLeaseDuration
	settings.RenewDeadline = &opts.LeaderElectRenewDeadline
	settings.RetryPeriod = &opts.LeaderElectRetryPeriod
	for _, change := range p.changes {
		change(&settings)
	}
	return settings, nil
}

// year is longer than any process runs.
const year = 365 * 24 * time.Hour

// serverOptions are for a manager that serves probes and metrics, and nothing else. Metrics are served over HTTPS, and
// the API server is asked whether the client may read them.
func serverOptions(opts *options.Options) ctrl.Options {
	return ctrl.Options{
		MapperProvider:         staticMapper,
		HealthProbeBindAddress: opts.HealthProbeBindAddress,
		Metrics: metricsserver.Options{
			BindAddress: opts.MetricsBindAddress, SecureServing: true, FilterProvider: scrape.Only,
		},
	}
}

// everywhere runs in replicas that do not lead as well.
type everywhere manager.RunnableFunc

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
