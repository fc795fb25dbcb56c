package importer

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/fair"
	"github.com/archelon-io/archelon/internal/outcome"
)

// agentControllerName is the name of the controller of the jobs in logs and metrics.
const agentControllerName = "rancher-agent"

// Delays before the work on one cluster is done again with the same input.
const (
	// jobBackoffBase is that after the first failure; it doubles with each.
	jobBackoffBase = time.Second
	// jobRecheckBase is that after the first success; it doubles with each.
	jobRecheckBase = 30 * time.Second
	// jobDelayMax ends the growth of both.
	jobDelayMax = 5 * time.Minute
	// jobPollMax ends the growth of the delays after the same Poll again. They grow by half from the first one on, which
	// is the Poll's: what is waited for is found late by half of the time that it took, at most.
	jobPollMax = time.Minute
)

// jobs is the controller of the slow part of an import, requests to workload clusters and downloads, with workers of
// its own. A dead workload cluster costs one of these until its timeout and never a worker of the import, so it delays
// nobody else. There is at most one job for a cluster; when it ends, the cluster is reconciled again.
//
// A job belongs to an input, a digest of everything that its result depends on. A result stands
// for as long as its input does, so events that change nothing start nothing, and a changed input starts a new
// job at once, whatever the backoff. When one is due again the import asks for it: whether it is to be
// done at all is decided there.
type jobs struct {
	parallel int
	clock    clock.PassiveClock
	backoff  workqueue.TypedRateLimiter[types.NamespacedName] // after failures
	recheck  workqueue.TypedRateLimiter[types.NamespacedName] // after successes
	// patience is about work that is Done: what it installed has yet to connect.
	patience *patience
	ended    chan event.GenericEvent

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // nil until the controller runs
	entries map[types.NamespacedName]*job
	polls   map[types.NamespacedName]poll
}

// job is the last work that was asked for, for a cluster.
type job struct {
	input  string
	work   func(context.Context) outcome.Outcome // nil once it has begun
	cancel context.CancelFunc                    // nil unless it runs
	result outcome.Outcome                       // valid once it has ended
	next   time.Time                             // when to work on the same input again; zero is never
}

// open reports whether the work has yet to end.
func (j *job) open() bool { return j.work != nil || j.cancel != nil }

// poll is the Poll that the last work for a cluster ended with.
type poll struct {
	reason string
	delay  time.Duration
}

func newJobs(parallel int, c clock.PassiveClock) *jobs {
	return &jobs{
		parallel: parallel,
		clock:    c,
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](jobBackoffBase, jobDelayMax),
		recheck:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](jobRecheckBase, jobDelayMax),
		patience: newPatience(jobRecheckBase),
		ended:    make(chan event.GenericEvent, parallel),
		entries:  map[types.NamespacedName]*job{},
		polls:    map[types.NamespacedName]poll{},
	}
}

// options are those of the controller. No namespace gets all workers: a hundred workload clusters that do not answer
// would hold them until their timeouts.
func (j *jobs) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: j.parallel,
		NewQueue:                fair.NewQueue(j.parallel - j.parallel/10),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax), // after a panic
	}
}

// serve is the source of the controller: work goes into its queue from now on, and what was asked for before.
func (j *jobs) serve(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = queue
	for key := range j.entries {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	return nil
}

// Reconcile implements reconcile.Reconciler: it does the work that was asked for. How that ends is told to the import,
// and no error of the controller.
func (j *jobs) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	work := j.begin(request.NamespacedName, cancel)
	if work == nil {
		return reconcile.Result{}, nil
	}
	// What is left of a panic, which goes on to controller-runtime: what a workload cluster sends must not
	// end the work for all others.
	result := outcome.Fail(archelonv1.InternalErrorReason, errPanic)
	defer func() {
		j.finish(working, request.NamespacedName, result)
		select {
		case j.ended <- event.GenericEvent{Object: clusterAt(request.NamespacedName)}:
		case <-ctx.Done():
		}
	}()
	result = work(working)
	return reconcile.Result{}, nil
}

// errPanic does not quote the panic, which may quote what led to it.
var errPanic = errors.New("an error of Archelon ended the work in the workload cluster (panic). Report it, with the log of Archelon")

// begin returns the work that waits for a cluster, nil if there is none.
func (j *jobs) begin(key types.NamespacedName, cancel context.CancelFunc) func(context.Context) outcome.Outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[key]
	if entry == nil || entry.work == nil {
		return nil
	}
	work := entry.work
	entry.work, entry.cancel = nil, cancel
	return work
}

// Do returns the result of the work for the input, or false while it is under way. Work that is Done, that
// failed or that polls is repeated after a delay that grows until the input changes; the result then says when.
func (j *jobs) Do(key types.NamespacedName, input string, work func(context.Context) outcome.Outcome) (outcome.Outcome, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[key]
	switch {
	case entry == nil:
		j.ask(key, input, work)
		return outcome.Outcome{}, false
	case entry.input != input:
		j.restartDelays(key)
		if entry.cancel != nil {
			entry.cancel()
		} else {
			j.ask(key, input, work)
		}
		return outcome.Outcome{}, false
	case entry.open():
		return outcome.Outcome{}, false
	case entry.next.IsZero():
		return entry.result, true
	}
	left := entry.next.Sub(j.clock.Now())
	if left <= 0 && entry.result.IsDone() {
		left = j.patience.postpone(key, j.clock.Now())
		entry.next = j.clock.Now().Add(left)
	}
	if left <= 0 {
		j.ask(key, input, work)
		return outcome.Outcome{}, false
	}
	result := entry.result
	result.After = left
	return result, true
}

// ask has the work done by a worker. The lock is held, and no other work for the cluster runs.
func (j *jobs) ask(key types.NamespacedName, input string, work func(context.Context) outcome.Outcome) {
	j.entries[key] = &job{input: input, work: work}
	if j.queue != nil {
		j.queue.Add(reconcile.Request{NamespacedName: key})
	}
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
	if entry.cancel != nil {
		entry.cancel() // The entry stays until the work has ended, so that there is never a second one beside it.
		return
	}
	delete(j.entries, key)
}

// Running reports whether a job for the cluster has yet to end, also one that is cancelled.
func (j *jobs) Running(key types.NamespacedName) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.entries[key]
	return entry != nil && entry.open()
}

// Connected notes that what the work for the cluster installed has connected.
func (j *jobs) Connected(key types.NamespacedName) { j.patience.arrive(key, j.clock.Now()) }

// LookAgain ends the pause before the next work for the cluster. The cluster has to be reconciled for it to begin.
func (j *jobs) LookAgain(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if entry := j.entries[key]; entry != nil && !entry.open() && !entry.next.IsZero() {
		entry.next = j.clock.Now()
	}
}

// restartDelays has the next delays be the first ones again. The lock is held.
func (j *jobs) restartDelays(key types.NamespacedName) {
	j.backoff.Forget(key)
	j.recheck.Forget(key)
	delete(j.polls, key)
}

// finish stores the result, unless the job was cancelled because its input changed or its cluster left.
func (j *jobs) finish(ctx context.Context, key types.NamespacedName, result outcome.Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ctx.Err() != nil {
		delete(j.entries, key)
		return
	}
	entry := j.entries[key]
	entry.cancel = nil
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

// Backoff of a cluster whose reconcile failed. Unlike the default there is no common bucket: one
// cluster's failures never slow down another.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)
