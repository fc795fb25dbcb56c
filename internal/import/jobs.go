package importer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Delays before the work on one cluster is done again with the same input.
const (
	// jobBackoffBase is that after the first failure; it doubles with each.
	jobBackoffBase = time.Second
	// jobRecheckBase is that after the first success; it doubles with each.
	jobRecheckBase = 30 * time.Second
	// jobDelayMax ends the growth of both.
	jobDelayMax = 5 * time.Minute
	// jobPollMax ends the growth of the delays after the same Poll again. They grow by half from the first one on, which is the Poll's: what is waited
	// for is found late by half of the time that it took, at most.
	jobPollMax = time.Minute
)

// jobs runs the slow part of an import, requests to workload clusters and downloads, beside the
// reconcile workers. A dead workload cluster costs a goroutine until its timeout and never a worker, so it
// delays nobody else. There is at most one job for a cluster; when it ends, the cluster is reconciled again.
//
// A job belongs to an input, a digest of everything that its result depends on. A result stands
// for as long as its input does, so events that change nothing start nothing, and a changed input starts a new
// job at once, whatever the backoff.
type jobs struct {
	clock   clock.PassiveClock
	backoff workqueue.TypedRateLimiter[types.NamespacedName] // after failures
	recheck workqueue.TypedRateLimiter[types.NamespacedName] // after successes
	// patience is about work that is Done: what it installed has yet to connect.
	patience *patience
	slots    *slots
	ended    chan event.GenericEvent

	mu      sync.Mutex
	root    context.Context               //nolint:containedctx // set by Start; jobs outlive the reconcile that asks for them
	early   map[types.NamespacedName]bool // asked for before Start
	entries map[types.NamespacedName]*job
	polls   map[types.NamespacedName]poll
	wg      sync.WaitGroup
}

// job is the last work that was started for a cluster.
type job struct {
	input   string
	cancel  context.CancelFunc
	running bool
	dropped bool            // Forget was called while it ran
	result  outcome.Outcome // valid once it is not running
	next    time.Time       // when to work on the same input again; zero is never
}

// poll is the Poll that the last work for a cluster ended with.
type poll struct {
	reason string
	delay  time.Duration
}

func newJobs(parallel int, c clock.PassiveClock) *jobs {
	return &jobs{
		clock:    c,
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](jobBackoffBase, jobDelayMax),
		recheck:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](jobRecheckBase, jobDelayMax),
		patience: newPatience(jobRecheckBase),
		slots:    newSlots(parallel),
		ended:    make(chan event.GenericEvent, parallel),
		early:    map[types.NamespacedName]bool{},
		entries:  map[types.NamespacedName]*job{},
		polls:    map[types.NamespacedName]poll{},
	}
}

// Start implements manager.Runnable: jobs run until the context ends, and Start returns when the last has.
func (j *jobs) Start(ctx context.Context) error {
	j.mu.Lock()
	j.root = ctx
	early := slices.Collect(maps.Keys(j.early))
	clear(j.early)
	j.mu.Unlock()
	for _, key := range early {
		j.wake(ctx, key)
	}
	<-ctx.Done()
	// Whoever asked before the context ended has its job counted when the lock is free, and nobody starts one after that.
	j.mu.Lock()
	j.mu.Unlock() //nolint:staticcheck // it is waited for, nothing is done
	j.wg.Wait()
	return nil
}

// Do returns the result of the work for the input, or false while it is under way. Work that is Done, that
// failed or that polls is repeated after a delay that grows until the input changes; the result then says when.
func (j *jobs) Do(key types.NamespacedName, input string, work func(context.Context) outcome.Outcome) (outcome.Outcome, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[key]
	switch {
	case j.root == nil:
		j.early[key] = true
		return outcome.Outcome{}, false
	case j.root.Err() != nil:
		return outcome.Outcome{}, false
	case entry == nil:
		j.start(key, input, work)
		return outcome.Outcome{}, false
	case entry.running:
		if entry.input != input {
			j.restartDelays(key)
			entry.cancel()
		}
		return outcome.Outcome{}, false
	case entry.input != input:
		j.restartDelays(key)
		j.start(key, input, work)
		return outcome.Outcome{}, false
	}
	if entry.next.IsZero() {
		return entry.result, true
	}
	left := entry.next.Sub(j.clock.Now())
	if left <= 0 && entry.result.IsDone() {
		left = j.patience.postpone(key, j.clock.Now())
		entry.next = j.clock.Now().Add(left)
	}
	if left <= 0 {
		j.start(key, input, work)
		return outcome.Outcome{}, false
	}
	result := entry.result
	result.After = left
	return result, true
}

// Forget drops what is known of the cluster and cancels a job under way.
func (j *jobs) Forget(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.restartDelays(key)
	j.patience.forget(key)
	entry := j.entries[key]
	if entry == nil {
		return
	}
	if entry.running {
		// The entry stays until its goroutine is gone, so that there is never a second one beside it.
		entry.dropped = true
		entry.cancel()
		return
	}
	delete(j.entries, key)
}

// Running reports whether a job for the cluster has yet to end, also one that is cancelled.
func (j *jobs) Running(key types.NamespacedName) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[key]
	return entry != nil && entry.running
}

// Connected notes that what the work for the cluster installed has connected.
func (j *jobs) Connected(key types.NamespacedName) { j.patience.arrive(key, j.clock.Now()) }

// LookAgain ends the pause before the next work for the cluster. The cluster has to be reconciled for it to begin.
func (j *jobs) LookAgain(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if entry := j.entries[key]; entry != nil && !entry.running && !entry.next.IsZero() {
		entry.next = j.clock.Now()
	}
}

// restartDelays has the next delays be the first ones again. The lock is held.
func (j *jobs) restartDelays(key types.NamespacedName) {
	j.backoff.Forget(key)
	j.recheck.Forget(key)
	delete(j.polls, key)
}

// start runs the work in a goroutine of its own. The lock is held.
func (j *jobs) start(key types.NamespacedName, input string, work func(context.Context) outcome.Outcome) {
	root := j.root
	ctx, cancel := context.WithCancel(root)
	entry := &job{input: input, cancel: cancel, running: true}
	j.entries[key] = entry
	j.wg.Go(func() {
		defer cancel()
		result := outcome.Outcome{Kind: outcome.KindFail}
		if j.slots.take(ctx, key.Namespace) {
			result = guarded(ctx, work)
			j.slots.give(key.Namespace)
		}
		j.finish(key, entry, result, ctx.Err())
		j.wake(root, key)
	})
}

// guarded turns a panic into a failure, as controller-runtime does in a reconcile: what a workload cluster sends must not end the work for all others.
func guarded(ctx context.Context, work func(context.Context) outcome.Outcome) (result outcome.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, cause)
			}
			result = outcome.Fail(archelonv1.InternalErrorReason, errPanic)
		}
	}()
	return work(ctx)
}

// errPanic does not quote the panic, which may quote what led to it.
var errPanic = errors.New("the work in the workload cluster ended in a panic: report it, with what the log has about it")

// wake has the cluster reconciled.
func (j *jobs) wake(ctx context.Context, key types.NamespacedName) {
	select {
	case j.ended <- event.GenericEvent{Object: clusterAt(key)}:
	case <-ctx.Done():
	}
}

// finish stores the result, unless the job was cancelled because its input changed or its cluster left.
func (j *jobs) finish(key types.NamespacedName, entry *job, result outcome.Outcome, canceled error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry.running = false
	if entry.dropped || errors.Is(canceled, context.Canceled) {
		delete(j.entries, key)
		return
	}
	entry.result = result
	if result.Kind != outcome.KindPoll {
		delete(j.polls, key)
	}
	switch result.Kind {
	case outcome.KindDone:
		j.backoff.Forget(key)
		j.patience.begin(key, j.clock.Now())
		entry.next = j.clock.Now().Add(j.recheck.When(key))
	case outcome.KindFail:
		entry.next = j.clock.Now().Add(j.backoff.When(key))
	case outcome.KindPoll:
		last := j.polls[key]
		delay := result.After
		if last.reason == result.Reason {
			delay = max(delay, min(last.delay+last.delay/2, jobPollMax))
		}
		j.polls[key] = poll{reason: result.Reason, delay: delay}
		entry.next = j.clock.Now().Add(delay)
	case outcome.KindWait, outcome.KindStall:
	}
}

func clusterAt(key types.NamespacedName) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	return cluster
}
