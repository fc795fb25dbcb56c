package rancher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// reactor is Rancher's controllers between one start and one stop of Rancher.
type reactor struct {
	*Standin
	client client.Client // cached for Rancher's own kinds
	log    logr.Logger
	fresh  *freshness
	// tokenMade has the version of each v3 Cluster at which its default token was seen to last.
	tokenMade *freshness
	// present has the keys of the v1 Clusters that were seen to exist.
	present sync.Map
	cancel  context.CancelFunc
	done    chan struct{}
}

// conflictDelay is the pause after a lost race for an object; the cache needs it to catch up.
const conflictDelay = 5 * time.Millisecond

func startReactor(ctx context.Context, s *Standin) (*reactor, error) {
	mgr, err := manager.New(s.config, manager.Options{
		Scheme:                 s.scheme,
		Logger:                 logr.Discard(),
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller: config.Controller{
			MaxConcurrentReconciles: s.opts.Workers,
			SkipNameValidation:      new(true), // Rancher may start again in one process
			UsePriorityQueue:        new(false),
		},
		Client: client.Options{Cache: &client.CacheOptions{
			Unstructured: true,
			DisableFor:   []client.Object{&corev1.Namespace{}, &corev1.Secret{}},
		}},
		GracefulShutdownTimeout: ptr.To(time.Minute),
	})
	if err != nil {
		return nil, fmt.Errorf("creating Rancher's manager: %w", err)
	}
	r := &reactor{
		Standin: s, client: mgr.GetClient(), log: s.opts.Logger,
		fresh: newFreshness(), tokenMade: newFreshness(), done: make(chan struct{}),
	}
	for _, setup := range []func(context.Context, ctrl.Manager) error{
		r.setupClusters, r.setupProvisioning, r.setupTokens, r.setupNamespaces,
	} {
		if err := setup(ctx, mgr); err != nil {
			return nil, fmt.Errorf("setting up Rancher's controllers: %w", err)
		}
	}
	// The cache must know the settings before the first token is filled.
	if _, err := mgr.GetCache().GetInformer(ctx, newObject(settingGVK)); err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("watching settings: %w", err)
	}
	var run context.Context
	run, r.cancel = context.WithCancel(s.ctx)
	failed := make(chan error, 1)
	go func() {
		defer close(r.done)
		failed <- mgr.Start(run)
	}()
	select {
	case <-mgr.Elected():
	case err := <-failed:
		return nil, fmt.Errorf("starting Rancher's controllers: %w", err)
	case <-ctx.Done():
		r.stop()
		return nil, fmt.Errorf("starting Rancher's controllers: %w", ctx.Err())
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		r.stop()
		return nil, fmt.Errorf("starting Rancher's controllers: %w", context.Cause(ctx))
	}
	return r, nil
}

func (r *reactor) stop() {
	r.cancel()
	<-r.done
}

// reconciler turns a function into a Reconciler that takes lost races for what they are: a
// reason to look again, not an error.
func (r *reactor) reconciler(what string, run func(context.Context, types.NamespacedName) (time.Duration, error)) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		wait, err := run(ctx, req.NamespacedName)
		switch {
		case err == nil:
			return reconcile.Result{RequeueAfter: wait}, nil
		case ctx.Err() != nil:
			return reconcile.Result{}, nil //nolint:nilerr // Rancher is going down and fails for that reason
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			return reconcile.Result{RequeueAfter: conflictDelay}, nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return reconcile.Result{RequeueAfter: r.opts.Timings.Poll}, nil
		}
		r.log.Error(err, "Rancher failed and tries again", "kind", what, "object", req.String())
		return reconcile.Result{}, err
	})
}

// trigger is a way into the queue of a controller that may not run at the moment.
type trigger struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// source hands the queue of a starting controller to the trigger.
func (t *trigger) source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = queue
		return nil
	})
}

// add makes the controller look at the object after a while. Without a running controller it
// does nothing: a controller looks at everything when it starts.
func (t *trigger) add(key types.NamespacedName, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.AddAfter(reconcile.Request{NamespacedName: key}, after)
	}
}

// soonest returns the shortest of the waits that are not zero.
func soonest(waits ...time.Duration) time.Duration {
	var out time.Duration
	for _, wait := range waits {
		if wait > 0 && (out == 0 || wait < out) {
			out = wait
		}
	}
	return out
}
