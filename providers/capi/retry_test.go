package capi

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// building counts the clusters that are built, and wraps each of them.
func building(o *Options, built *atomic.Int64, wrap func(cluster.Cluster) cluster.Cluster) {
	build := o.NewCluster
	o.NewCluster = func(
		ctx context.Context, ccl *clusterv1.Cluster, config *rest.Config, options ...cluster.Option,
	) (cluster.Cluster, error) {
		built.Add(1)
		created, err := build(ctx, ccl, config, options...)
		if err != nil || wrap == nil {
			return created, err
		}
		return wrap(created), nil
	}
}

// retriesAfter has failures tried again after a time.
func retriesAfter(o *Options, wait time.Duration) { o.Timing.RetryMin, o.Timing.RetryMax = wait, wait }

// Probes, and events of a Secret that has not changed, do not end the pause. Another kubeconfig does.
func TestFailedEngagementPausesUntilTheKubeconfigChanges(t *testing.T) {
	t.Parallel()
	var built atomic.Int64
	f, s := newFleet(t, func(o *Options) {
		retriesAfter(o, long)
		building(o, &built, nil)
	}), newServer(t, "a", "b")
	f.aware.fails(errors.New("the scheme lacks a kind"))
	name := f.add("one", s.access("a"))
	f.becomes(name, Connecting, EngagementFailingReason)
	for range 5 {
		f.give("one", s.access("a"))
		s.probed(t, 2)
	}
	if attempts := f.aware.attempted(); attempts != 1 {
		t.Errorf("the cluster was handed over %d times without a pause", attempts)
	}
	f.becomes(name, Connecting, EngagementFailingReason)
	f.aware.fails(nil)
	f.give("one", s.access("b"))
	f.becomes(name, Engaged, EngagedReason)
	if got := built.Load(); got != 1 {
		t.Errorf("%d clusters were built, although the first one can be kept", got)
	}
}

func TestFailedEngagementIsTriedAgain(t *testing.T) {
	t.Parallel()
	var built atomic.Int64
	s := newServer(t, "a")
	f := newFleet(t, func(o *Options) { building(o, &built, nil) })
	f.aware.fails(errors.New("the scheme lacks a kind"))
	name := f.add("one", s.access("a"))
	const some = 5
	eventually(t, "it is tried again", func() bool { return f.aware.attempted() > some })
	f.aware.fails(nil)
	f.becomes(name, Engaged, EngagedReason)
	if got := built.Load(); got != 1 {
		t.Errorf("%d clusters were built, although the first one can be kept", got)
	}
}

// shortLived is a cluster that ends as soon as it was started.
type shortLived struct{ cluster.Cluster }

func (s *shortLived) Start(context.Context) error { return errors.New("the cache ended") }

func TestClusterThatEndsIsBuiltAgainAfterAPause(t *testing.T) {
	t.Parallel()
	var built atomic.Int64
	f, s := newFleet(t, func(o *Options) {
		retriesAfter(o, long)
		building(o, &built, func(c cluster.Cluster) cluster.Cluster { return &shortLived{c} })
		o.Timing.Read = time.Second // its cache is waited for in vain
	}), newServer(t, "a")
	f.becomes(f.add("one", s.access("a")), Connecting, EngagementFailingReason)
	s.probed(t, 10)
	if got := built.Load(); got != 1 {
		t.Errorf("%d clusters were built without a pause", got)
	}
}

// stubborn is a multi-cluster manager that does not end although its context has.
type stubborn struct {
	attempts atomic.Int64
	end      chan struct{}
}

// Engage implements multicluster.Aware.
func (s *stubborn) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error {
	s.attempts.Add(1)
	<-s.end
	return nil
}

// Who hangs is not called a second time meanwhile, and gets no second cluster.
func TestControllersThatHang(t *testing.T) {
	t.Parallel()
	var built atomic.Int64
	f, s := newFleet(t, func(o *Options) {
		o.Timing.Engage = 10 * time.Millisecond
		building(o, &built, nil)
	}), newServer(t, "a")
	hangs := &stubborn{end: make(chan struct{})}
	f.Provider.mu.Lock()
	f.Provider.aware = hangs
	f.Provider.mu.Unlock()
	name := f.add("one", s.access("a"))
	f.becomes(name, Connecting, EngagementFailingReason)
	s.probed(t, 10)
	if attempts, got := hangs.attempts.Load(), built.Load(); attempts != 1 || got != 1 {
		t.Errorf("%d attempts with %d clusters while the first attempt hangs", attempts, got)
	}
	close(hangs.end)
	eventually(t, "it is tried again", func() bool { return hangs.attempts.Load() > 1 })
	f.becomes(name, Engaged, EngagedReason)
}
