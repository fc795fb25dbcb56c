// Package setup turns options into a running manager: caches, client, metrics, probes, lease, and the controllers
// that the feature gates ask for.
package setup

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/internal/version"
)

// defaultInstance is the name of an instance that has no other.
const defaultInstance = "archelon"

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Run runs the manager until the context ends. It starts without the CRDs of CAPI and Rancher, says which it waits
// for, and begins to work when they are there.
func Run(ctx context.Context, config *rest.Config, opts *options.Options) error {
	config = rest.CopyConfig(config)
	config.QPS = opts.KubeAPIQPS
	config.Burst = opts.KubeAPIBurst
	config.UserAgent = version.Get().UserAgent()

	scope, err := opts.Scope()
	if err != nil {
		return err
	}
	meters, err := newMeters()
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	rights, err := newAccess(config, scope, meters.lacking)
	if err != nil {
		return err
	}
	hook, err := newWebhook(config, opts)
	if err != nil {
		return err
	}
	scraped, err := newMetricsServer(config, opts.MetricsBindAddress)
	if err != nil {
		return err
	}
	probes, err := newProbes(ctx, opts.HealthProbeBindAddress, hook.checks())
	if err != nil {
		return err
	}
	p := &process{config: config, opts: opts, rights: rights, hook: hook, meters: meters, probes: probes}
	// They need no rights in namespaces: they are there before the first manager, and live on when one follows another.
	return during(ctx, p.runManagers,
		service{name: "probes", serve: probes.serve}, service{name: "metrics", serve: scraped}, service{name: "webhooks", serve: hook.serve})
}

// process is what all managers of this process share.
type process struct {
	config *rest.Config
	opts   *options.Options
	rights *access
	hook   *webhookServer
	meters *meters
	probes *probes
}

// runManagers runs one manager after the other, each for the namespaces in which the instance has rights then.
func (p *process) runManagers(ctx context.Context) error {
	for ctx.Err() == nil {
		granted, missing, err := p.rights.granted(ctx, p.probes.waiting)
		if err != nil {
			return ignoreStop(ctx, err)
		}
		// The namespaces of a cache are fixed for its life, so one more or less means a new manager.
		running, stop := context.WithCancel(ctx)
		go func() {
			defer stop()
			p.rights.change(running, granted.Included(), missing)
		}()
		err = p.run(running, instance.Claim{Scope: granted, WatchFilter: p.opts.WatchFilter})
		stop()
		p.starting()
		if err != nil {
			return err
		}
	}
	return nil
}

// starting takes back what a manager has made known of its caches.
func (p *process) starting() {
	p.probes.starting()
	p.meters.synced.Set(0)
}

// meters are the metrics of this process. They outlive a manager.
type meters struct {
	imports *importer.Metrics
	info    *instance.Info
	synced  prometheus.Gauge
	lacking prometheus.Gauge
}

func newMeters() (*meters, error) {
	imports, err := importer.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, err
	}
	info, err := instance.NewInfo(metrics.Registry)
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
	return &meters{imports: imports, info: info, synced: synced, lacking: lacking}, nil
}

// run runs a manager for the namespaces of a claim until the context ends.
func (p *process) run(ctx context.Context, claim instance.Claim) error {
	p.starting()
	s, err := scheme.New()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	self, lock, unlock, err := identify(p.config, s, p.opts, claim)
	if err != nil {
		return err
	}
	defer unlock()
	downloader, err := rancher.NewDownloader(rancher.DownloaderOptions{
		Timeout:               p.opts.ManifestTimeout,
		MaxBytes:              p.opts.ManifestMaxBytes,
		InsecureSkipTLSVerify: p.opts.InsecureSkipTLSVerify,
	})
	if err != nil {
		return err
	}
	defer downloader.Close()
	p.meters.info.Set(self, claim)
	mgr, err := ctrl.NewManager(p.config, managerOptions(s, p.opts, claim.Scope, lock))
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	beside, peers, err := addBeside(mgr, p.config, p.opts, self, claim.Scope)
	if err != nil {
		return err
	}
	settings, err := rancher.NewSettings(mgr.GetClient())
	if err != nil {
		return err
	}
	crds, err := newCRDWait(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	controllers := &controllers{
		mgr: mgr, opts: p.opts, claim: claim, peers: peers, settings: settings, downloader: downloader, beside: beside, metrics: p.meters.imports, gauge: p.meters.synced,
		crds: crds, suspectLoss: p.rights.suspectLoss,
	}
	if err := mgr.Add(controllers); err != nil {
		return fmt.Errorf("adding the controllers: %w", err)
	}
	if err := p.hook.addTo(mgr); err != nil {
		return fmt.Errorf("adding the webhook: %w", err)
	}
	p.probes.readyWhen(controllers.checks())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func managerOptions(s *runtime.Scheme, opts *options.Options, scope shard.Scope, lock resourcelock.Interface) ctrl.Options {
	return ctrl.Options{
		Scheme:                        s,
		MapperProvider:                func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return scheme.Mapper(), nil },
		Cache:                         cacheOptions(scope, opts.TurtlesNamespaces, opts.SyncPeriod),
		Client:                        clientOptions(),
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // Metrics and probes outlive a manager.
		HealthProbeBindAddress:        "0",
		PprofBindAddress:              opts.ProfilerAddress,
		LeaderElection:                opts.LeaderElect,
		LeaderElectionReleaseOnCancel: true,

		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &opts.LeaderElectLeaseDuration,
		RenewDeadline:                       &opts.LeaderElectRenewDeadline,
		RetryPeriod:                         &opts.LeaderElectRetryPeriod,

		// A manager for more namespaces has the same controllers.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	}
}

// identify names this instance and returns the lock that its replicas take turns with, nil without leader election, and what ends the lock.
func identify(config *rest.Config, s *runtime.Scheme, opts *options.Options, claim instance.Claim) (instance.ID, resourcelock.Interface, func(), error) {
	whole, err := opts.Scope()
	if err != nil {
		return instance.ID{}, nil, nil, err
	}
	self := instance.ID{Name: cmp.Or(opts.Instance, whole.LeaseName(defaultInstance))}
	if !opts.LeaderElect {
		return self, nil, func() {}, nil
	}
	if self.Namespace, err = coordinationNamespace(opts); err != nil {
		return self, nil, nil, err
	}
	lock, unlock, err := instance.NewLock(config, s, self, claim, opts.LeaderElectRenewDeadline)
	return self, lock, unlock, err
}

// coordinationNamespace returns the namespace of the Leases of all instances, that of this one among them. It fails if nothing names it.
func coordinationNamespace(opts *options.Options) (string, error) {
	if opts.LeaderElectNamespace != "" {
		return opts.LeaderElectNamespace, nil
	}
	return instance.Namespace()
}

// addBeside adds the second cache, and makes the watch over other instances that reads from it. An instance that is not elected and does not know the
// coordination namespace knows no others.
func addBeside(mgr ctrl.Manager, config *rest.Config, opts *options.Options, self instance.ID, scope shard.Scope) (cache.Cache, *instance.Peers, error) {
	coordination, err := coordinationNamespace(opts)
	if err != nil && opts.LeaderElect {
		return nil, nil, err
	}
	limits := besideCacheOptions(scope, coordination, opts.SyncPeriod)
	limits.Mapper, limits.HTTPClient = mgr.GetRESTMapper(), mgr.GetHTTPClient()
	if limits.Scheme, err = besideScheme(); err != nil {
		return nil, nil, err
	}
	beside, err := cache.New(config, limits)
	if err != nil {
		return nil, nil, fmt.Errorf("building the second cache: %w", err)
	}
	if err := mgr.Add(standby{beside}); err != nil {
		return nil, nil, fmt.Errorf("adding the second cache: %w", err)
	}
	var leases client.Reader
	if coordination != "" {
		leases = beside
	}
	peers, err := instance.NewPeers(self, opts.LeaderElect, leases, clock.RealClock{})
	if err != nil {
		return nil, nil, err
	}
	return beside, peers, nil
}

// standby starts a cache in replicas that do not lead as well, as the manager does with its own.
type standby struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }

// newMetricsServer returns what serves metrics over HTTPS, and asks the API server whether the client may read them.
func newMetricsServer(config *rest.Config, address string) (func(context.Context) error, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for reviews of tokens: %w", err)
	}
	server, err := metricsserver.NewServer(metricsserver.Options{
		BindAddress:    address,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}, config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the server of metrics: %w", err)
	}
	if server == nil { // They are off.
		return func(context.Context) error { return nil }, nil
	}
	return server.Start, nil
}
