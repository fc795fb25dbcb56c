package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// defaultInstance is the name of an instance that has no other.
const defaultInstance = "archelon"

// identify names this instance.
func identify(opts *options.Options) (instance.ID, error) {
	whole, err := opts.Scope()
	if err != nil {
		return instance.ID{}, err
	}
	namespace, err := coordinationNamespace(opts)
	return instance.ID{Namespace: namespace, Name: InstanceName(opts, whole)}, err
}

// InstanceName is the name of an instance that has these options, which mean a scope.
func InstanceName(opts *options.Options, scope shard.Scope) string {
	return cmp.Or(opts.Instance, opts.SelectorSuffix(scope.LeaseName(defaultInstance)))
}

// coordinationNamespace returns the namespace of the Leases of all instances, that of this one among them. It fails if
// nothing names it.
func coordinationNamespace(opts *options.Options) (string, error) {
	if opts.LeaderElectNamespace != "" {
		return opts.LeaderElectNamespace, nil
	}
	return instance.Namespace()
}

// member is this process among the instances of the management cluster.
type member struct {
	self      instance.ID
	peers     *instance.Peers
	fence     *instance.Fence
	lock      instance.LockOptions
	durations instance.Durations
	// leaving are namespaces that the instance has given up and in which it may still hold something.
	mu      sync.Mutex
	leaving []string
	// leave ends what sends Events.
	leave func()
	// tell publishes an Event about the Lease, also when the process ends. Reasons are in CamelCase.
	tell func(reason, message string)
}

// joining is how long a registration may take that nobody has to be told of.
const joining = 2 * time.Second

// join registers the instance with what it claims, and watches the Leases of all until the context ends. It calls waits
// if that takes long, and gives up when nobody asks any more.
func (p *process) join(ctx, asking context.Context, claim instance.Claim, waits func()) (*member, error) {
	self, err := identify(p.opts)
	if err != nil {
		return nil, err
	}
	m := &member{self: self, leave: func() {}}
	m.durations = instance.Durations{Lease: p.opts.LeaderElectLeaseDuration, Renew: p.opts.LeaderElectRenewDeadline, Retry: p.opts.LeaderElectRetryPeriod}
	replica, err := instance.Identity()
	if err != nil {
		return nil, err
	}
	if m.fence, err = instance.NewFence(replica, m.durations.Lease, m.durations.Renew); err != nil {
		return nil, err
	}
	watching, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(p.config), "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("building a client for Leases: %w", err)
	}
	// A request that hangs must not cost the Lease.
	hasty := rest.AddUserAgent(rest.CopyConfig(p.config), "leader-election")
	hasty.Timeout = max(m.durations.Renew/2, time.Second)
	renewing, err := kubernetes.NewForConfig(hasty)
	if err != nil {
		return nil, fmt.Errorf("building a client for Leases: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	m.leave = broadcaster.Shutdown
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: watching.CoreV1().Events(self.Namespace)})
	recorder := broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: replica})
	m.lock = instance.LockOptions{
		Self: self, Claim: claim, Leases: renewing.CoordinationV1(), Events: recorder, Identity: replica, Fence: m.fence,
		Leaving: m.left,
	}
	m.tell = func(reason, message string) {
		p.tell(context.WithoutCancel(ctx), renewing.CoreV1(), self, replica, reason, message)
	}
	if !p.opts.LeaderElect {
		if instance.InPod() {
			p.logger.Info("--leader-elect=false is ignored in a Pod: the replicas of an instance take turns")
		} else {
			m.lock.Unelected = &instance.Unelected{}
		}
	}
	m.peers, err = instance.NewPeers(instance.Options{
		Self: self, Claim: claim, Leases: watching.CoordinationV1(), Duration: m.durations.Lease, Fence: m.fence, Metrics: p.meters.instances,
		Logger: p.logger, Tell: func(reason, message string) { p.tell(ctx, renewing.CoreV1(), self, replica, reason, message) },
	})
	if err != nil {
		return nil, err
	}
	// Where the API server does not answer, probes are to be.
	late := time.AfterFunc(joining, waits)
	defer late.Stop()
	before, err := m.peers.Join(ctx, asking)
	m.leaving = Given(before, claim.Scope, p.opts.ExcludedNamespaces)
	return m, err
}

// tell publishes an Event about the Lease of the instance. A recorder would count one that comes again by changing the
// first, and the role in the coordination namespace lets Events be created alone.
func (p *process) tell(ctx context.Context, events corev1client.EventsGetter, self instance.ID, replica, reason, message string) {
	now := metav1.Now()
	_, err := events.Events(self.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: self.Namespace, GenerateName: self.LeaseName() + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Namespace: self.Namespace, Name: self.LeaseName(),
		},
		Type: corev1.EventTypeNormal, Reason: reason, Message: message, Source: corev1.EventSource{Component: replica},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		p.logger.Error(err, "Publishing an Event about the Lease failed", "reason", reason)
	}
}

// standBy returns where the instance may work, and calls waits if that is nowhere yet.
func (m *member) standBy(ctx context.Context, waits func()) (shard.Scope, error) {
	return m.peers.StandBy(ctx, m.durations, m.lock, waits)
}

// turns returns the lock that the replicas of the instance take turns on.
func (m *member) turns(works shard.Scope) (resourcelock.Interface, error) {
	lock := m.lock
	lock.Works = works
	return instance.NewLock(lock)
}

// guard has a client write only while the process knows that it may.
func (m *member) guard(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(m.fence.Wrap)
	return config
}

// lapsed returns why this process may not write any more; empty if it may.
func (m *member) lapsed() string { return m.fence.Lapsed() }

// Given returns the namespaces that an instance has given up since its Lease was written last: those that it excludes
// now and did not then, and those that it named and does not claim any more; and those that an earlier process was
// about to leave. Of others nothing is asked.
func Given(before instance.Registered, now shard.Scope, excluded []string) []string {
	names := slices.Clone(before.Leaving)
	for _, name := range slices.Concat(excluded, before.Scope.Included()) {
		if before.Scope.Owns(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(slices.DeleteFunc(names, now.Owns))
}

// left returns the namespaces that are yet to be left.
func (m *member) left() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.leaving)
}

// stillHeld returns what this instance may still hold in a namespace that it has given up. What names no instance is
// that of the one which works there now.
func (m *member) stillHeld(holdings []hold.Holding, namespace string) []hold.Holding {
	return slices.DeleteFunc(holdings, func(h hold.Holding) bool {
		return h.Unmarked && m.peers.WorkIn(namespace)
	})
}

// hasLeft says that nothing is held in a namespace any more.
func (m *member) hasLeft(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = slices.DeleteFunc(m.leaving, func(name string) bool { return name == namespace })
}

// watch ends the process when what it gets has changed. It returns when the context ends.
func (m *member) watch(ctx context.Context, end *ending) {
	if why := m.peers.Watch(ctx); why != "" {
		end.because(why)
	}
}
