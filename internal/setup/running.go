package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/shard"
)

// probeTimeout bounds a readiness probe.
const probeTimeout = 2 * time.Second

// running are the controllers of this process.
type running struct {
	controllers []*started
	settings    *rancher.Settings
	synced      func() // is called once caches are synced
	logger      logr.Logger
	seat        *seat.Seat   // nil where Rancher is in the management cluster
	left        atomic.Int64 // how many are not synced
	conversion  *conversion

	// replaced ends the process, to be started again, because another project's CRD has replaced one of a controller.
	replaced func(controller, crd, cause string)
	// created ends it because a CRD exists now that a controller works without.
	created func(controller, crd string)
	// imports: readiness depends on Rancher.
	imports bool
}

// started is a controller on its way. It waits for its own CRDs alone, and its caches are warm in standby replicas as
// well, so that a takeover is quick.
type started struct {
	controller.Controller
	env  controller.Env
	crds *crdWait
}

// add adds controllers to a manager.
func (r *running) add(
	mgr ctrl.Manager, config *rest.Config, there located, all []controller.Controller, scope shard.Scope, syncPeriod time.Duration,
) error {
	for _, c := range all {
		if !c.Optional {
			r.left.Add(1)
		}
	}
	crds, err := newCRDWatches(mgr)
	ofRancher := crds
	if err == nil && there.config != nil {
		ofRancher, err = newCRDWatches(there)
	}
	if err != nil {
		return err
	}
	envs := map[string]controller.Env{}
	for _, c := range all {
		env, shares := envs[c.Shares]
		if !shares {
			env = controller.Env{Manager: mgr, Rancher: there}
			if env.Own, env.RancherOwn, err = ownCaches(mgr, config, there, c, scope, syncPeriod); err != nil {
				return err
			}
		}
		envs[c.Name] = env
		s := &started{Controller: c, env: env, crds: waitOn(crds, ofRancher, c)}
		r.controllers = append(r.controllers, s)
		err = mgr.Add(everywhere(func(ctx context.Context) error { return r.start(ctx, s, scope) }))
		if err != nil {
			return fmt.Errorf("adding controller %s: %w", c.Name, err)
		}
	}
	return nil
}

// ownCaches adds a controller's own caches to a manager, of the management cluster and of Rancher's. They are the
// same where the clusters are.
func ownCaches(
	mgr ctrl.Manager, config *rest.Config, there located, c controller.Controller, scope shard.Scope, syncPeriod time.Duration,
) (own, rancherOwn cache.Cache, err error) {
	if there.config == nil {
		own, err = ownCache(mgr, mgr, config, c, ownOptions(c, scope, syncPeriod))
		return own, own, err
	}
	inManagement, inRancher := receiving([]controller.Controller{c}, false)[0], receiving([]controller.Controller{c}, true)[0]
	if own, err = ownCache(mgr, mgr, config, c, ownOptions(inManagement, scope, syncPeriod)); err != nil {
		return nil, nil, err
	}
	rancherOwn, err = ownCache(mgr, there, there.config, c, ownOptions(inRancher, scope, syncPeriod))
	return own, rancherOwn, err
}

// ownCache adds a controller's own cache of a cluster to a manager. It has the cluster's connections, and its scheme
// unless the controller has one.
func ownCache(mgr ctrl.Manager, of cluster.Cluster, config *rest.Config, c controller.Controller, options cache.Options) (cache.Cache, error) {
	options.Mapper, options.HTTPClient, options.Scheme = of.GetRESTMapper(), of.GetHTTPClient(), of.GetScheme()
	if c.Scheme != nil {
		var err error
		if options.Scheme, err = c.Scheme(); err != nil {
			return nil, err
		}
	}
	own, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("building the cache of %s: %w", c.Name, err)
	}
	if err := mgr.Add(everywhere(own.Start)); err != nil {
		return nil, fmt.Errorf("adding the cache of %s: %w", c.Name, err)
	}
	return own, nil
}

// start waits for the CRDs of a controller, sets it up, and fills its caches. It ends the process when one of these
// CRDs is replaced by another project's: whatever is written then drops fields. The next process waits for the right
// one.
func (r *running) start(ctx context.Context, s *started, scope shard.Scope) error {
	if err := s.crds.waitForAll(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	kept := make(chan error, 1)
	go func() {
		kept <- s.crds.keep(ctx, func(crd, cause string) {
			if cause == "" {
				r.created(s.Name, crd)
				return
			}
			r.replaced(s.Name, crd, cause)
		})
	}()
	s.env.Without = s.crds.without()
	if err := s.Setup(ctx, s.env); err != nil {
		return ignoreStop(ctx, err)
	}
	for _, watch := range s.Watches(scope) {
		if absent, err := s.isAbsent(watch); err != nil {
			return err
		} else if absent {
			continue
		}
		from := s.env.Manager.GetCache()
		switch {
		case watch.Own && watch.Rancher:
			from = s.env.RancherOwn
		case watch.Own:
			from = s.env.Own
		case watch.Rancher:
			from = s.env.Rancher.GetCache()
		}
		if _, err := from.GetInformer(ctx, watch.Object); err != nil { // It has the first list then.
			return ignoreStop(ctx, fmt.Errorf("starting the watch of %s on %T: %w", s.Name, watch.Object, err))
		}
	}
	if ctx.Err() == nil && !s.Optional && r.left.Add(-1) == 0 {
		r.synced()
		r.logger.Info("Caches are synced")
	}
	return ignoreStop(ctx, <-kept)
}

// isAbsent reports whether a watch is on the kind of an optional CRD that does not exist.
func (s *started) isAbsent(watch controller.Watch) (bool, error) {
	if len(s.env.Without) == 0 {
		return false, nil
	}
	mapping, err := mappingOf(s.Controller, watch.Object)
	return err == nil && slices.Contains(s.env.Without, mapping.Resource.GroupResource().String()), err
}

// checks are what the readiness of the process depends on.
func (r *running) checks() map[string]healthz.Checker {
	checks := map[string]healthz.Checker{"caches": r.cachesSynced, "capi-conversion": r.clustersReadable}
	if r.imports {
		checks["rancher-settings"] = r.settingsReadable
	}
	if r.seat != nil {
		checks["rancher-seat"] = r.seat.Ready
	}
	for _, s := range r.controllers {
		if !s.Optional {
			checks["crds-"+s.Name] = s.crds.check
		}
	}
	return checks
}

// cachesSynced is a readiness check.
func (r *running) cachesSynced(*http.Request) error {
	if r.left.Load() > 0 {
		return errors.New("caches are not synced yet")
	}
	return nil
}

// clustersReadable is a readiness check. CAPI Clusters are not asked for where the kind does not exist.
func (r *running) clustersReadable(request *http.Request) error {
	if !slices.ContainsFunc(r.controllers, func(s *started) bool { return s.crds.serves(controller.PausingClusters().Name) }) {
		return nil
	}
	return r.conversion.check(request)
}

// settingsReadable is a readiness check.
func (r *running) settingsReadable(request *http.Request) error {
	if err := r.cachesSynced(request); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(request.Context(), probeTimeout)
	defer cancel()
	return r.settings.Ready(ctx)
}

// ignoreStop drops an error that only says that the manager stops.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what fails because of the stop is no failure
	}
	return err
}
