// Package setup turns options into a running manager: caches, client, metrics, probes, lease, and the controllers
// that the feature gates ask for.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
)

const (
	// defaultInstance is the name of an instance that has no other.
	defaultInstance = "archelon"
	// leaseSuffix and the name of the instance make the name of the Lease that its replicas take turns with.
	leaseSuffix = "-leader-election"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Run runs the manager until the context ends. It starts without the CRDs of CAPI and Rancher, says which it waits
// for, and begins to work when they are there.
func Run(ctx context.Context, config *rest.Config, opts *options.Options) error {
	config = rest.CopyConfig(config)
	config.QPS = opts.KubeAPIQPS
	config.Burst = opts.KubeAPIBurst
	rest.AddUserAgent(config, "archelon")

	scope, err := opts.Scope()
	if err != nil {
		return err
	}
	instance := cmp.Or(opts.Instance, scope.LeaseName(defaultInstance))
	s, err := scheme.New()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        s,
		MapperProvider:                func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return scheme.Mapper(), nil },
		Cache:                         cacheOptions(scope, opts.SyncPeriod),
		Client:                        clientOptions(),
		Metrics:                       metricsOptions(opts.MetricsBindAddress),
		HealthProbeBindAddress:        opts.HealthProbeBindAddress,
		PprofBindAddress:              opts.ProfilerAddress,
		LeaderElection:                opts.LeaderElect,
		LeaderElectionID:              instance + leaseSuffix,
		LeaderElectionNamespace:       opts.LeaderElectNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &opts.LeaderElectLeaseDuration,
		RenewDeadline:                 &opts.LeaderElectRenewDeadline,
		RetryPeriod:                   &opts.LeaderElectRetryPeriod,
	})
	if err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	secrets, err := cache.New(config, tokenSecretCacheOptions(mgr, opts.SyncPeriod))
	if err != nil {
		return fmt.Errorf("building the cache of token Secrets: %w", err)
	}
	if err := mgr.Add(standby{secrets}); err != nil {
		return fmt.Errorf("adding the cache of token Secrets: %w", err)
	}
	settings, err := rancher.NewSettings(mgr.GetClient())
	if err != nil {
		return err
	}
	controllers := &controllers{mgr: mgr, opts: opts, scope: scope, settings: settings, tokenSecrets: secrets}
	if err := mgr.Add(controllers); err != nil {
		return fmt.Errorf("adding the controllers: %w", err)
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", controllers.cachesSynced),
		mgr.AddReadyzCheck("rancher-settings", controllers.settingsReadable),
	); err != nil {
		return fmt.Errorf("adding probes: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// standby starts a cache in replicas that do not lead as well, as the manager does with its own.
type standby struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }

// metricsOptions serves metrics over HTTPS and asks the API server whether the client may read them.
func metricsOptions(address string) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:    address,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}
}
