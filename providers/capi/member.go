package capi

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// member is one incarnation of a Cluster that is to be engaged. A goroutine of its own moves it on; nothing that
// it does concerns another one.
type member struct {
	provider *Provider
	name     multicluster.ClusterName
	key      types.NamespacedName
	uid      types.UID
	log      logr.Logger
	line     *line
	wake     chan struct{}
	done     chan struct{} // closed when its goroutine has ended

	mu     sync.Mutex
	ccl    *clusterv1.Cluster
	ready  bool               // whether the Cluster can be connected to
	cancel context.CancelFunc // nil until it is started
	// reread is that the kubeconfig may have changed; suspect is a connection whose credentials were
	// refused, and doubted is since when.
	reread  bool
	suspect *session
	doubted time.Time
	engaged *engagement
	status  Status

	// indexing is held while indexes are added.
	indexing sync.Mutex

	// What follows belongs to the goroutine.
	attempts, failures int
	probed             time.Time
	grace              grace
	// read is when the kubeconfig was read. rereadAfter is when a kubeconfig is tried again that does not connect, or
	// could not be read, while there is a connection.
	read, rereadAfter time.Time
	// engageAfter is when an engagement that failed is tried again, and ending is the last one that was ended.
	engageAfter time.Time
	ending      *engagement
	// worked is whether controllers have worked with the cluster.
	worked bool
	// lateAfter is when the next kind is reported that has not been received; zero if there is none.
	lateAfter time.Time
}

func newMember(p *Provider, ccl *clusterv1.Cluster) *member {
	key := types.NamespacedName{Namespace: ccl.Namespace, Name: ccl.Name}
	m := &member{
		provider: p, name: NameOf(key), key: key, uid: ccl.UID, ccl: ccl, log: p.log.WithValues("cluster", key.String()),
		wake: make(chan struct{}, 1), done: make(chan struct{}), reread: true, status: p.opts.notReady(ccl),
	}
	m.status.Since = time.Now()
	m.line = newLine(m.suspectCredentials, m.awake, p.opts.MaxListBytes)
	return m
}

// start has its goroutine run until the context ends or it is stopped.
func (m *member) start(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel != nil {
		return
	}
	ctx, m.cancel = context.WithCancel(ctx)
	go m.run(ctx)
}

// stop ends it. It returns at once.
func (m *member) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel == nil {
		m.cancel = func() {}
		close(m.done)
		return
	}
	m.cancel()
}

// awake has it look again.
func (m *member) awake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// kubeconfigChanged has it read the kubeconfig again.
func (m *member) kubeconfigChanged() {
	m.mu.Lock()
	m.reread = true
	m.mu.Unlock()
	m.awake()
}

// suspectCredentials has it look whether there are others. Those who take care of it may revoke the earlier ones a
// moment before they publish the next ones.
func (m *member) suspectCredentials(conn *session) {
	m.mu.Lock()
	known := m.suspect == conn
	if !known {
		m.suspect, m.doubted = conn, time.Now()
	}
	m.mu.Unlock()
	if !known {
		m.awake()
	}
}

// doubtful reports whether there may still be other credentials than those of a connection, which were refused.
func (m *member) doubtful(conn *session) (suspected, still bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.suspect == nil:
		return false, false
	case m.suspect != conn:
		m.suspect = nil
		return false, false
	case time.Since(m.doubted) < doubts*m.provider.opts.Timing.RetryMin:
		return true, true
	}
	m.suspect = nil
	return true, false
}

// doubts is how often the kubeconfig is read again before credentials that were refused are given up.
const doubts = 4

func (m *member) cluster() (*clusterv1.Cluster, *engagement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ccl, m.engaged
}

// observe keeps the newest state of the Cluster.
func (m *member) observe(ccl *clusterv1.Cluster, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	elsewhere := m.provider.opts.moved(m.ccl, ccl)
	m.ccl, m.ready = ccl, ready
	if m.cancel == nil {
		m.status.Message = m.provider.opts.notReady(ccl).Message
	}
	if elsewhere {
		m.reread = true
		m.awake()
	}
}

func (m *member) isReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

func (m *member) currentStatus() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// become changes the status.
func (m *member) become(state State, reason, message string) {
	m.mu.Lock()
	before := m.status
	if before.State == state && before.Reason == reason && before.Message == message {
		m.mu.Unlock()
		return
	}
	m.status = Status{State: state, Since: before.Since, Reason: reason, Message: message}
	if before.State != state {
		m.status.Since = time.Now()
	}
	m.mu.Unlock()
	if before.State != state || before.Reason != reason {
		m.log.Info("Cluster is "+string(state), "reason", reason, "message", message)
	}
	m.provider.opts.Changed(m.key)
}

func (m *member) run(ctx context.Context) {
	defer close(m.done)
	defer m.leave()
	m.become(Connecting, ConnectingReason, "the first connection is being made")
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
		timer.Reset(m.step(ctx))
	}
}

// leave disengages the cluster, closes its connections, and waits for what ran in it. Requests that a cluster does not
// answer end with the connection, so that is cut first.
func (m *member) leave() {
	m.disengage()
	m.provider.failed.Forget(m)
	m.disconnect()
	if m.ending == nil {
		return
	}
	timer := time.NewTimer(m.provider.opts.Timing.Request)
	defer timer.Stop()
	select {
	case <-m.ending.stopped:
	case <-timer.C: // A cluster of others may not end.
	}
}
