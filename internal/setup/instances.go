package setup

import (
	"cmp"
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
)

// defaultInstance is the name of an instance that has no other.
const defaultInstance = "archelon"

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

// addPeers adds the watch over other instances, with a cache of their Leases. An instance that is not elected and does not know the coordination namespace
// knows no others.
func addPeers(mgr ctrl.Manager, config *rest.Config, opts *options.Options, self instance.ID) (*instance.Peers, error) {
	coordination, err := coordinationNamespace(opts)
	if err != nil {
		if opts.LeaderElect {
			return nil, err
		}
		return instance.NewPeers(self, false, nil, clock.RealClock{})
	}
	limits := leaseOptions(coordination, opts.SyncPeriod)
	limits.Mapper, limits.HTTPClient, limits.Scheme = mgr.GetRESTMapper(), mgr.GetHTTPClient(), mgr.GetScheme()
	leases, err := cache.New(config, limits)
	if err != nil {
		return nil, fmt.Errorf("building the cache of Leases: %w", err)
	}
	if err := mgr.Add(everywhere(leases.Start)); err != nil {
		return nil, fmt.Errorf("adding the cache of Leases: %w", err)
	}
	peers, err := instance.NewPeers(self, opts.LeaderElect, leases, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	// It reads from the cache, which has the Leases then.
	err = mgr.Add(everywhere(func(ctx context.Context) error { return observe(ctx, leases, mgr, peers) }))
	if err != nil {
		return nil, fmt.Errorf("adding the watch on the Leases of instances: %w", err)
	}
	return peers, nil
}

// observe tells the peers of every change of a Lease, and starts them when the cache has the Leases.
func observe(ctx context.Context, leases cache.Cache, mgr ctrl.Manager, peers *instance.Peers) error {
	informer, err := leases.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return ignoreStop(ctx, fmt.Errorf("starting the watch on the Leases of instances: %w", err))
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { peers.Observe() },
		UpdateFunc: func(any, any) { peers.Observe() },
		DeleteFunc: func(any) { peers.Observe() },
	})
	if err != nil {
		return ignoreStop(ctx, fmt.Errorf("starting the watch on the Leases of instances: %w", err))
	}
	return mgr.Add(peers)
}
