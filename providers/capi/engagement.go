package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// engagement is a cluster that was built for controllers. It is kept while one of them cannot be started: those that
// were started work with it, and multicluster-runtime hands it over again without starting them a second time.
type engagement struct {
	cluster *engagedCluster
	ctx     context.Context //nolint:containedctx // controllers get it with each attempt to hand the cluster over
	cancel  context.CancelFunc
	stopped chan struct{} // closed when the cluster runs no more
	handing chan struct{} // closed when the last attempt to hand it over has returned; nil before the first one
	since   time.Time     // when all controllers had it
	// complete is whether all that controllers receive was there once, or was reported.
	complete bool
	applied  map[string]bool
}

// ended reports whether nothing of it runs any more.
func (e *engagement) ended() bool {
	return closed(e.stopped) && (e.handing == nil || closed(e.handing))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

var (
	errStopped = errors.New("the cluster stopped by itself")
	errHanging = errors.New("the controllers that did not start in time have not returned yet")
)

// engage has controllers work with the cluster. It returns zero if they do, and else when to try again: later with each
// failure, whatever wakes the member meanwhile.
func (m *member) engage(ctx context.Context) time.Duration {
	_, e := m.cluster()
	if e != nil && closed(e.stopped) {
		m.disengage()
		return m.engagementFailed(ctx, errStopped)
	}
	if e != nil && !e.since.IsZero() {
		m.index(ctx)
		if time.Since(e.since) > m.provider.opts.Timing.RetryMax {
			m.provider.failed.Forget(m)
		}
		return 0
	}
	if wait := time.Until(m.engageAfter); wait > 0 {
		m.becomeUnengaged()
		return wait
	}
	first := m.provider.failed.NumRequeues(m) == 0
	err := m.provider.turn(ctx, first, func() error { return m.tryToEngage(ctx, e) })
	if err != nil {
		return m.engagementFailed(ctx, err)
	}
	return 0
}

// tryToEngage hands the cluster over, and builds it if there is none. It waits for nothing that the cluster sends:
// kinds are looked for in the background.
func (m *member) tryToEngage(ctx context.Context, e *engagement) error {
	if e == nil {
		if m.ending != nil && !m.ending.ended() {
			return errHanging
		}
		m.ending = nil
		var err error
		if e, err = m.build(ctx); err != nil {
			return err
		}
	}
	m.index(ctx)
	if err := m.handOver(ctx, e); err != nil {
		return err
	}
	e.since = time.Now()
	return nil
}

// engagementFailed returns when to try again.
func (m *member) engagementFailed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return m.provider.opts.Timing.RetryMax
	}
	wait := m.provider.failed.When(m)
	m.log.Error(err, "Engaging the cluster failed", "retryAfter", wait)
	m.engageAfter = time.Now().Add(wait)
	m.becomeUnengaged()
	return wait
}

// becomeUnengaged says so. Controllers do not work with the cluster, or not all of them. That the connection ends soon
// is more urgent.
func (m *member) becomeUnengaged() {
	reason, message := EngagementFailingReason, "a controller could not be started for the cluster: see the log"
	if m.grace.given() {
		reason, message = RotationFailingReason, m.grace.message()
	}
	m.become(m.without(Connecting), reason, message)
}

// engageAtOnce ends the pause of an engagement that failed.
func (m *member) engageAtOnce() {
	m.provider.failed.Forget(m)
	m.engageAfter = time.Time{}
}

// build creates and starts the cluster.
func (m *member) build(ctx context.Context) (*engagement, error) {
	opts := m.provider.opts
	ccl, _ := m.cluster()
	ctx, cancel := context.WithCancel(ctx)
	built, err := opts.NewCluster(ctx, ccl.DeepCopy(), m.config(), append(
		slices.Clone(opts.ClusterOptions), bounded(ctx, m.line, opts.Timing.Read, m.log))...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("creating the cluster: %w", err)
	}
	e := &engagement{
		cluster: engageable(ctx, m.line, built, opts.Timing.Read), ctx: ctx, cancel: cancel, stopped: make(chan struct{}),
		applied: map[string]bool{},
	}
	starting, ended := context.WithTimeout(ctx, opts.Timing.Read)
	defer ended()
	go func() {
		defer m.awake()
		defer close(e.stopped)
		defer ended()
		if err := e.cluster.Start(ctx); err != nil && ctx.Err() == nil {
			m.log.Error(err, "The cluster stopped")
		}
	}()
	// Nobody is to have it before its cache runs, which refuses reads until then instead of waiting. There are no
	// informers to wait for, but those that NewCluster may have made, one of which may never be filled: hence the bound.
	e.cluster.cache.Cache.WaitForCacheSync(starting)
	m.mu.Lock()
	m.engaged = e
	m.mu.Unlock()
	return e, nil
}

// handOver hands a cluster to the controllers, which get a while for it. Those that take longer hold up other clusters,
// because multicluster-runtime holds a lock meanwhile: the end of the engagement ends them.
func (m *member) handOver(ctx context.Context, e *engagement) error {
	var handed cluster.Cluster = e.cluster
	result, returned := make(chan error, 1), make(chan struct{})
	e.handing = returned
	go func() {
		defer close(returned)
		result <- m.provider.aware.Engage(e.ctx, m.name, handed)
	}()
	timer := time.NewTimer(m.provider.opts.Timing.Engage)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		m.disengage()
		return errors.New("the controllers did not start in time")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// disengage ends what controllers do with the cluster. It does not wait: as long as something of it runs, no other one
// is built.
func (m *member) disengage() {
	m.mu.Lock()
	e := m.engaged
	m.engaged = nil
	m.mu.Unlock()
	if e == nil {
		return
	}
	m.ending = e
	e.cancel()
}
