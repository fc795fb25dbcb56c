package instance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/archelon-io/archelon/internal/shard"
)

const system = "system"

// server is what an API server does with the Leases of one namespace: versions, optimistic locks, and watches that show
// each change in order.
type server struct {
	mu      sync.Mutex
	version int
	leases  map[string]*coordinationv1.Lease
	log     []watch.Event
	grown   *sync.Cond
}

func newServer() *server {
	s := &server{leases: map[string]*coordinationv1.Lease{}}
	s.grown = sync.NewCond(&s.mu)
	return s
}

func (s *server) write(event watch.EventType, lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	lease = lease.DeepCopy()
	lease.ResourceVersion = fmt.Sprint(s.version)
	if event == watch.Deleted {
		delete(s.leases, lease.Name)
	} else {
		s.leases[lease.Name] = lease
	}
	s.log = append(s.log, watch.Event{Type: event, Object: lease.DeepCopy()})
	s.grown.Broadcast()
	return lease.DeepCopy()
}

// forget deletes the Lease of an instance.
func (s *server) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(watch.Deleted, s.leases[name+leaseSuffix])
}

// line is how a process reaches the server. It can be cut: requests and watches are stuck then, as in a process that is
// stopped.
type line struct {
	coordinationclient.LeaseInterface
	server *server
	// frozen stops requests and watches, silent watches alone.
	frozen, silent bool
}

// Leases implements coordinationclient.LeasesGetter. Those of any other namespace may be made up by a tenant.
func (l *line) Leases(namespace string) coordinationclient.LeaseInterface {
	if namespace != system {
		panic("Leases of namespace " + namespace + " were asked for")
	}
	return l
}

func (l *line) set(frozen, silent bool) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.frozen, l.silent = frozen, silent
	l.server.grown.Broadcast()
}

// ask locks the server when the line is not frozen.
func (l *line) ask() func() {
	l.server.mu.Lock()
	for l.frozen {
		l.server.grown.Wait()
	}
	return l.server.mu.Unlock
}

var leases = coordinationv1.Resource("leases")

func (l *line) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	defer l.ask()()
	if lease, ok := l.server.leases[name]; ok {
		return lease.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(leases, name)
}

func (l *line) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	defer l.ask()()
	if _, ok := l.server.leases[lease.Name]; ok {
		return nil, apierrors.NewAlreadyExists(leases, lease.Name)
	}
	lease = lease.DeepCopy()
	lease.UID, lease.CreationTimestamp = types.UID(fmt.Sprint("u", l.server.version)), metav1.NewTime(time.Now().Truncate(time.Second))
	return l.server.write(watch.Added, lease), nil
}

func (l *line) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	defer l.ask()()
	if known, ok := l.server.leases[lease.Name]; !ok || known.ResourceVersion != lease.ResourceVersion {
		return nil, apierrors.NewConflict(leases, lease.Name, fmt.Errorf("version %s", lease.ResourceVersion))
	}
	return l.server.write(watch.Modified, lease), nil
}

func (l *line) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	defer l.ask()()
	list := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(l.server.version)}}
	for _, lease := range l.server.leases {
		list.Items = append(list.Items, *lease.DeepCopy())
	}
	return list, nil
}

func (l *line) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	defer l.ask()()
	next := 0
	if _, err := fmt.Sscan(options.ResourceVersion, &next); err != nil {
		return nil, apierrors.NewBadRequest("a list comes first")
	}
	w := &watching{events: make(chan watch.Event), done: make(chan struct{})}
	go w.forward(l, next)
	context.AfterFunc(ctx, w.Stop)
	return w, nil
}

type watching struct {
	events chan watch.Event
	done   chan struct{}
	once   sync.Once
}

// ResultChan implements watch.Interface.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watching) Stop() { w.once.Do(func() { close(w.done) }) }

// forward sends what the server logs from a version on, each write being a version.
func (w *watching) forward(l *line, next int) {
	defer close(w.events)
	wake := make(chan struct{})
	defer close(wake)
	go func() { // A condition cannot wait for a channel.
		select {
		case <-w.done:
			l.server.mu.Lock()
			l.server.grown.Broadcast()
			l.server.mu.Unlock()
		case <-wake:
		}
	}()
	for ; ; next++ {
		l.server.mu.Lock()
		for (l.frozen || l.silent || next >= len(l.server.log)) && !w.stopped() {
			l.server.grown.Wait()
		}
		if w.stopped() {
			l.server.mu.Unlock()
			return
		}
		event := l.server.log[next]
		l.server.mu.Unlock()
		select {
		case w.events <- watch.Event{Type: event.Type, Object: event.Object.DeepCopyObject()}:
		case <-w.done:
			return
		}
	}
}

func (w *watching) stopped() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// process is a replica of an instance, started again whenever it ends, as a kubelet would.
type process struct {
	t     *testing.T
	id    ID
	claim Claim
	line  *line
	stop  context.CancelFunc
	done  chan struct{}

	mu    sync.Mutex
	fence *Fence
	works shard.Scope
	leads bool
	said  []string
	ended []string
	gone  []string // instances that do not run any more, in the order in which it was told
	// second is what a second listener was told.
	second []string
}

var durations = Durations{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second}

// start starts an instance with a scope and a watch filter.
func (s *server) start(t *testing.T, name, scope, filter string) *process {
	t.Helper()
	p := &process{
		t: t, id: ID{Namespace: system, Name: name}, claim: Claim{Scope: mustScope(t, scope), WatchFilter: filter},
		line: &line{server: s}, works: shard.None(), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // it ends before the test
	p.stop = func() { cancel(); <-p.done }
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			why, err := p.run(ctx)
			if err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			p.set(func() { p.fence, p.works, p.leads, p.ended = nil, shard.None(), false, append(p.ended, why) })
			pass(time.Second)
		}
	}()
	return p
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// run is the life of one process.
func (p *process) run(ctx context.Context) (string, error) {
	identity := fmt.Sprint(p.id.Name, "-", time.Now().UnixNano())
	fence, err := NewFence(identity, durations.Lease, durations.Renew)
	if err != nil {
		return "", err
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return "", err
	}
	peers, err := NewPeers(Options{
		Self: p.id, Claim: p.claim, Leases: p.line, Duration: durations.Lease, Fence: fence, Metrics: metrics,
		Tell: func(reason, text string) { p.set(func() { p.said = append(p.said, reason+": "+text) }) },
	})
	if err != nil {
		return "", err
	}
	peers.Gone(func(name string) {
		if peers.Runs(name) {
			p.t.Errorf("%s was told that %s is gone, which runs", p.id, name)
		}
		p.set(func() { p.gone = append(p.gone, name) })
	})
	peers.Gone(func(name string) { p.set(func() { p.second = append(p.second, name) }) })
	peers.Gone(func(name string) { p.t.Errorf("%s is told that %s is gone, and does not listen any more", p.id, name) })()
	lock := LockOptions{Self: p.id, Claim: p.claim, Leases: p.line, Identity: identity, Fence: fence}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := peers.Join(ctx, ctx); err != nil {
		return "", err
	}
	scope, err := peers.StandBy(ctx, durations, lock, func() {})
	if err != nil {
		return "", err
	}
	p.set(func() { p.fence, p.works = fence, scope })
	lock.Works = scope
	turns, err := NewLock(lock)
	if err != nil {
		return "", err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: turns, LeaseDuration: durations.Lease, RenewDeadline: durations.Renew, RetryPeriod: durations.Retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { p.set(func() { p.leads = true }) },
			OnStoppedLeading: func() { p.set(func() { p.leads = false }) },
		},
	})
	if err != nil {
		return "", err
	}
	working, end := context.WithCancel(ctx)
	why := make(chan string, 1)
	go func() {
		defer end()
		why <- peers.Watch(working)
	}()
	elector.Run(working) // It returns when the Lease is lost, and the process ends.
	end()
	return <-why, nil
}

// writes returns where the process may write now.
func (p *process) writes() shard.Scope {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fence == nil || !p.leads || p.fence.Check() != nil {
		return shard.None()
	}
	return p.works
}
