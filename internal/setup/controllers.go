package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/archelon-io/archelon/feature"
	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/rolekeeper"
	"github.com/archelon-io/archelon/internal/version"
	"github.com/archelon-io/archelon/internal/workload"
)

// probeTimeout bounds a readiness probe.
const probeTimeout = 2 * time.Second

// controllers adds the controllers to the manager once their CRDs exist, and warms the caches in standby
// replicas as well, so that a takeover is quick.
type controllers struct {
	mgr        ctrl.Manager
	opts       *options.Options
	claim      instance.Claim
	peers      *instance.Peers
	settings   *rancher.Settings
	downloader *rancher.Downloader
	beside     cache.Cache
	metrics    *importer.Metrics
	gauge      prometheus.Gauge // of synced
	crds       *crdWait
	synced     atomic.Bool
	// suspectLoss is called when permissions in a namespace may have been lost.
	suspectLoss func(unbound func(namespace string) bool)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby replica gets ready too.
func (c *controllers) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (c *controllers) Start(ctx context.Context) error {
	if err := c.crds.waitForAll(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// Before the watches in the namespaces: where the permissions are lost already, those never begin.
	keeper, err := c.setupRoleKeeper(ctx)
	if err != nil {
		return ignoreStop(ctx, err)
	}
	if err := c.setupImport(ctx, keeper); err != nil {
		return err
	}
	for _, object := range append(scopedObjects(),
		&managementv3.Cluster{}, &managementv3.Setting{}, &coordinationv1.Lease{}, rancher.NewRegistrationToken(), metadataOf("Namespace"),
	) {
		if _, err := c.mgr.GetCache().GetInformer(ctx, object); err != nil {
			return ignoreStop(ctx, fmt.Errorf("starting the watch on %T: %w", object, err))
		}
	}
	for _, object := range []client.Object{metadataOf("Secret"), metadataOf("Namespace"), &rancher.NamedCluster{}} {
		if _, err := c.beside.GetInformer(ctx, object); err != nil {
			return ignoreStop(ctx, fmt.Errorf("starting the second watch on %T: %w", object, err))
		}
	}
	if err := c.watchInstances(ctx); err != nil {
		return ignoreStop(ctx, fmt.Errorf("starting the watch on the Leases of instances: %w", err))
	}
	if !c.mgr.GetCache().WaitForCacheSync(ctx) || !c.beside.WaitForCacheSync(ctx) {
		return nil
	}
	c.synced.Store(true)
	c.gauge.Set(1)
	c.mgr.GetLogger().Info("Caches are synced")
	return nil
}

// watchInstances tells the peers of every change of a Lease, and starts them when the cache has the Leases: they read from it.
func (c *controllers) watchInstances(ctx context.Context) error {
	if _, err := coordinationNamespace(c.opts); err != nil {
		return nil //nolint:nilerr // it knows no others; with leader election it would not have come here
	}
	leases, err := c.beside.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	_, err = leases.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.peers.Observe() },
		UpdateFunc: func(any, any) { c.peers.Observe() },
		DeleteFunc: func(any) { c.peers.Observe() },
	})
	if err != nil {
		return err
	}
	return c.mgr.Add(c.peers)
}

// setupImport adds the import controller with the strategy that the gate chooses. The role keeper, if there is one, tells it where to work no more.
func (c *controllers) setupImport(ctx context.Context, keeper *rolekeeper.Reconciler) error {
	var active, other importer.Strategy = importv1.Strategy{}, importv3.Strategy{}
	if c.opts.Gates.Enabled(feature.ManagementV3Cluster) {
		active, other = other, active
	}
	tokens, err := rancher.NewTokens(c.mgr.GetClient(), c.mgr.GetAPIReader())
	if err != nil {
		return err
	}
	workloads, err := workload.NewClients(c.mgr.GetAPIReader(), workload.Options{Timeout: c.opts.WorkloadTimeout, UserAgent: version.Get().UserAgent()})
	if err != nil {
		return err
	}
	reconciler := &importer.Reconciler{
		Client:     c.mgr.GetClient(),
		APIReader:  c.mgr.GetAPIReader(),
		Recorder:   c.mgr.GetEventRecorder(importer.ControllerName),
		Active:     active,
		Others:     []importer.Strategy{other},
		Settings:   c.settings,
		Tokens:     tokens,
		Downloader: c.downloader,
		Workloads:  workloads,
		Metrics:    c.metrics,
		Peers:      c.peers,
		Claim:      c.claim,
		Jobs:       c.opts.WorkloadConcurrency,
		Switches:   c.opts.StrategySwitchConcurrency,

		AdoptTurtles:    c.opts.AdoptTurtles,
		TurtlesParked:   c.opts.TurtlesParked,
		DisconnectGrace: c.opts.AgentDisconnectGrace,
		FleetWorkspaces: c.opts.FleetWorkspaces,
	}
	if keeper != nil {
		reconciler.Withdrawn = keeper.Withdrawn
	}
	return reconciler.SetupWithManager(ctx, c.mgr, importer.Options{Concurrency: c.opts.Concurrency, TokenSecrets: c.beside, Assigned: c.beside, DisplayNames: c.beside})
}

// setupRoleKeeper adds the controller that lets RoleBindings go, which an instance may have if it works in named namespaces. It is nil if it may not: the
// permissions are looked at every minute then.
func (c *controllers) setupRoleKeeper(ctx context.Context) (*rolekeeper.Reconciler, error) {
	if len(c.claim.Scope.Included()) == 0 {
		return nil, nil //nolint:nilnil // most instances have none, which is no error
	}
	reviews, err := authorizationclient.NewForConfigAndClient(c.mgr.GetConfig(), c.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for access reviews: %w", err)
	}
	var may bool
	// It ends with the answer or the context: a moment's failure costs no restart.
	_ = wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
		var err error
		if may, err = rolekeeper.MayWatch(ctx, reviews.SelfSubjectAccessReviews()); err != nil && ctx.Err() == nil {
			c.mgr.GetLogger().Error(err, "Asking whether RoleBindings may be watched failed; trying again")
		}
		return err == nil, nil
	})
	if !may {
		go wait.UntilWithContext(ctx, func(context.Context) { c.suspectLoss(nil) }, lossPoll)
		return nil, nil //nolint:nilnil // it needs none
	}
	keeper := &rolekeeper.Reconciler{
		Client: c.mgr.GetClient(), APIReader: c.mgr.GetAPIReader(), Reviews: reviews.SelfSubjectAccessReviews(), Bindings: c.beside,
		Self: c.peers.Self(), Scope: c.claim.Scope,
	}
	keeper.Lost = func() { c.suspectLoss(keeper.Unbound) }
	return keeper, keeper.SetupWithManager(ctx, c.mgr, c.beside)
}

// checks are what the readiness of the process depends on while the manager runs.
func (c *controllers) checks() map[string]healthz.Checker {
	return map[string]healthz.Checker{"crds": c.crds.check, "caches": c.cachesSynced, "rancher-settings": c.settingsReadable}
}

// cachesSynced is a readiness check.
func (c *controllers) cachesSynced(*http.Request) error {
	if !c.synced.Load() {
		return errors.New("caches are not synced yet")
	}
	return nil
}

// settingsReadable is a readiness check.
func (c *controllers) settingsReadable(request *http.Request) error {
	if !c.synced.Load() {
		return errors.New("caches are not synced yet")
	}
	ctx, cancel := context.WithTimeout(request.Context(), probeTimeout)
	defer cancel()
	return c.settings.Ready(ctx)
}

// ignoreStop drops an error that only says that the manager stops.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what fails because of the stop is no failure
	}
	return err
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
