package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hub"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/internal/version"
)

// here are the controllers that run in this cluster. Those of the hub run in management clusters.
func (p *process) here(on []controller.Controller) []controller.Controller {
	if !p.opts.Gates.Enabled(feature.ManagementClusters) {
		return on
	}
	return slices.DeleteFunc(on, func(c controller.Controller) bool { return c.Gate != feature.ManagementClusters })
}

// cacheOptions limits the shared cache of this process.
func (p *process) cacheOptions(on []controller.Controller, scope shard.Scope) (cache.Options, error) {
	if p.opts.Gates.Enabled(feature.ManagementClusters) {
		return narrowed(scoped(scope, p.opts.SyncPeriod), nil, on, scope)
	}
	return cacheOptions(p.remote.here(on), scope, p.opts.NamespaceSelector != "", p.opts.SyncPeriod)
}

// priorityQueue is whether controllers of others, which are added to the manager, have controller-runtime's own queue.
// That of v0.24.1 can hang when it is shut down while requests wait.
func (p *process) priorityQueue() *bool {
	if p.opts.Gates.Enabled(feature.ManagementClusters) {
		return new(false)
	}
	return nil
}

// setupHub adds what imports from management clusters.
func (p *parts) setupHub(ctx context.Context, env controller.Env) error {
	own := &corev1.NamespaceList{}
	// It lists, within a name: that needs no other permission than what asks for the namespaces of Rancher clusters.
	if err := env.Manager.GetAPIReader().List(ctx, own, client.MatchingFields{"metadata.name": metav1.NamespaceSystem}); err != nil {
		return fmt.Errorf("reading the UID of Rancher's cluster: %w", err)
	}
	if len(own.Items) != 1 {
		return errors.New("the cluster of Rancher has no namespace kube-system, by whose UID it is known")
	}
	shared, err := shareRancher(ctx, env)
	if err != nil {
		return err
	}
	guard := p.place.member.guard
	return hub.SetupWithManager(ctx, env.Manager, hub.Options{
		Namespace: p.opts.ManagementClustersNamespace, Own: own.Items[0].UID, Registry: metrics.Registry,
		Connection: func(config *rest.Config) error {
			config.QPS, config.Burst, config.UserAgent = p.opts.KubeAPIQPS, p.opts.KubeAPIBurst, version.Get().UserAgent()
			*config = *guard(config)
			return nil
		},
		Cluster: []cluster.Option{func(o *cluster.Options) { o.Scheme, o.MapperProvider = env.Manager.GetScheme(), staticMapper }},
		Import: func(ctx context.Context, from hub.Target, progress hub.Progress) error {
			return p.importFrom(ctx, env.Manager, shared, from, progress)
		},
	})
}

// importFrom runs the import from a management cluster until the context ends, when it has the seat. Its
// caches of the management cluster, its connections and its limits are its own; those of Rancher's cluster
// are views of what all share.
func (p *parts) importFrom(ctx context.Context, here ctrl.Manager, shared *sharedRancher, from hub.Target, progress hub.Progress) error {
	of := &parts{
		opts: p.opts, place: p.place, origin: from.UID, many: true, originName: from.Display, settings: p.settings, downloader: p.downloader, metrics: p.metrics,
	}
	scope, logger := p.place.claim.Scope, here.GetLogger().WithValues("managementCluster", from.Name)
	on := []controller.Controller{importer.Controller(p.opts.TurtlesNamespaces, from.UID, of.setupImport)}
	on[0].CRDs = slices.DeleteFunc(on[0].CRDs, func(crd controller.CRD) bool { return crd.Of == controller.Rancher() }) // The hub has them.
	if err := permitted(ctx, from.Config, from.UID, scope, on); err != nil {
		return err
	}
	return p.whileSeated(ctx, here, from, progress.Served, func(ctx context.Context, guard func(*rest.Config) *rest.Config) error {
		config := guard(from.Config)
		mgr, err := managerOf(config, here, on, scope, p.opts.SyncPeriod, logger)
		if err != nil {
			return err
		}
		there, err := shared.at(mgr, guard(here.GetConfig()), from.UID)
		if err != nil {
			return err
		}
		running := &running{settings: p.settings, synced: progress.Synced, logger: logger}
		if err := running.add(mgr, config, there, on, scope, p.opts.SyncPeriod); err != nil {
			return err
		}
		if err := mgr.Start(ctx); err != nil {
			return fmt.Errorf("running the manager of a management cluster: %w", err)
		}
		return nil
	})
}

// managerOf returns the manager of a management cluster.
func managerOf(
	config *rest.Config, here ctrl.Manager, on []controller.Controller, scope shard.Scope, syncPeriod time.Duration, logger logr.Logger,
) (ctrl.Manager, error) {
	settings := ctrl.Options{
		Scheme: here.GetScheme(), MapperProvider: staticMapper, Client: clientOptions(), Logger: logger,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(time.Duration(-1)), // Nothing of it may run when the next one begins.
	}
	settings.Controller.SkipNameValidation, settings.Controller.UsePriorityQueue = new(true), new(false)
	var err error
	if settings.Cache, err = cacheOptions(receiving(on, false), scope, false, syncPeriod); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, fmt.Errorf("building the manager of a management cluster: %w", err)
	}
	return mgr, nil
}

// asking bounds questions to a management cluster that precede an import.
const asking = 30 * time.Second

// permitted asks a management cluster whether it is the right one, and what is received from it may be: a cache that
// may not list or watch never syncs.
func permitted(ctx context.Context, config *rest.Config, uid types.UID, scope shard.Scope, on []controller.Controller) error {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	if err := hub.Confirm(ctx, config, uid); err != nil {
		return err
	}
	rights, err := newAccess(config, scope, receiving(on, false), nil)
	if err != nil {
		return err
	}
	lacks, err := rights.lacks(ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	if lacks != "" {
		return &hub.LackingError{Permission: lacks}
	}
	return nil
}
