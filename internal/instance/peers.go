package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// settle is how long an instance that could work in more namespaces waits before it starts again with them. A process
// that starts again is not free, and what one peer has left another one may be about to take. As long a Lease that
// seems to have run out before the process began is watched, for clocks may differ.
const settle = 5 * time.Second

// Options are what Peers need. All but the logger are required.
type Options struct {
	// Self is this instance.
	Self ID
	// Claim is what its flags say.
	Claim Claim
	// Leases are those of the coordination namespace.
	Leases coordinationclient.LeasesGetter
	// Duration is how long a Lease that is not renewed stands for a living instance, at least.
	Duration time.Duration
	// Fence is told what the watch shows of the own Lease.
	Fence *Fence
	// Metrics say what the instance gets.
	Metrics *Metrics
	// Logger is told when the share changes.
	Logger logr.Logger
	// Tell publishes an Event about the own Lease. Reasons are in CamelCase.
	Tell func(reason, message string)
}

// Peers watch over the Leases of all instances.
type Peers struct {
	Options
	watch toolscache.Controller
	kick  chan struct{}

	mu   sync.Mutex
	seen map[ID]sighting
	told string
	// works is where the manager of this process works, or is about to.
	works shard.Scope
	// ahead are the others that worked there when this process had published that, and have not left since. Who
	// publishes later waits for this one.
	ahead     map[ID]bool
	published bool
	// ran are the other instances that ran when this was looked at last or were seen since, and those in gone are told of
	// each that does not run any more.
	ran map[ID]bool
	// moved are those that were seen to claim something else since.
	moved map[ID]bool
	gone  map[*listener]struct{}
}

// NewPeers returns the watch over the Leases of instances, which Run begins. It fails if an option is missing.
func NewPeers(opts Options) (*Peers, error) {
	if opts.Self.Name == "" || opts.Self.Namespace == "" || opts.Leases == nil || opts.Duration <= 0 || opts.Fence == nil || opts.Metrics == nil ||
		opts.Tell == nil {
		return nil, errors.New("the watch over instances needs an instance, Leases, a duration, a fence, metrics and Events")
	}
	p := &Peers{Options: opts, kick: make(chan struct{}, 1), seen: map[ID]sighting{}, works: shard.None(), ahead: map[ID]bool{}, ran: map[ID]bool{}, moved: map[ID]bool{}}
	leases := opts.Leases.Leases(opts.Self.Namespace)
	only := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector = archelonv1.InstanceLabel
		return options
	}
	_, p.watch = toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return leases.List(ctx, only(options))
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return leases.Watch(ctx, only(options))
			},
		},
		ObjectType: &coordinationv1.Lease{},
		Transform:  toolscache.TransformFunc(withoutManagers),
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    p.changed,
			UpdateFunc: func(_, object any) { p.changed(object) },
			DeleteFunc: p.deleted,
		},
	})
	return p, nil
}

func withoutManagers(object any) (any, error) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		lease.ManagedFields = nil
	}
	return object, nil
}

// joinPause is between two tries to register an instance.
const joinPause = time.Second

// Join registers what the instance claims, unless it is registered, and watches the Leases until the context ends. It
// returns when it has seen them all, with what the instance was registered with before. What fails is tried
// again for as long as somebody asks, so its error is that of the context asking.
func (p *Peers) Join(ctx, asking context.Context) (Registered, error) {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Self.Namespace, Name: p.Self.LeaseName(), Labels: map[string]string{archelonv1.InstanceLabel: p.Self.Name},
			Annotations: p.Claim.annotations(shard.None()),
		},
	}
	err := wait.PollUntilContextCancel(asking, joinPause, true, func(ctx context.Context) (bool, error) {
		_, err := p.Leases.Leases(p.Self.Namespace).Create(ctx, lease, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		if ctx.Err() == nil {
			p.Logger.Error(err, "Registering this instance failed; trying again")
		}
		return false, nil
	})
	if err != nil {
		return Registered{}, err
	}
	go p.watch.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(asking.Done(), p.watch.HasSynced) {
		return Registered{}, asking.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[p.Self].Registered, nil
}

// share returns what the instance gets by the Leases, and when that may be different although none of them changes:
// zero is never. The number is that of namespaces whose instances do not run.
func (p *Peers) share() (Share, int, time.Time) {
	instances, until := p.registered()
	self := Registered{ID: p.Self, Claim: p.Claim, Since: time.Now(), Alive: true}
	for _, r := range instances {
		if r.ID == p.Self {
			self.Since = r.Since
		}
	}
	return Divide(self, instances), Unowned(instances), until
}

// undecided reports whether a Lease that seems to have run out long ago is still being watched. What the instance gets
// is about to change, if it has.
func (p *Peers) undecided() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if s.ID != p.Self && s.old && rankOf(s.Claim) != named && now.Before(s.runsOut()) && s.meets(p.Claim) && s.Scope.Overlaps(p.Claim.Scope) {
			return true
		}
	}
	return false
}

// Runs reports whether an instance runs, by the name that it writes on what it works on.
func (p *Peers) Runs(name string) bool {
	instances, _ := p.registered()
	return slices.ContainsFunc(instances, func(r Registered) bool { return r.Alive && r.String() == name })
}

// Keeps reports whether another instance has a CAPI cluster in a namespace with these labels, see Keeps.
func (p *Peers) Keeps(cluster client.Object, namespace map[string]string) bool {
	instances, _ := p.registered()
	self := Registered{ID: p.Self, Claim: p.Claim, Since: time.Now()}
	for _, r := range instances {
		if r.ID == p.Self {
			self.Since = r.Since
		}
	}
	return Keeps(self, instances, cluster, namespace)
}

// Claimed reports whether an instance that runs, or this one, imports what is in a namespace with these labels.
func (p *Peers) Claimed(namespace string, labels map[string]string) bool {
	instances, _ := p.registered()
	return slices.ContainsFunc(instances, func(r Registered) bool {
		return (r.Alive || r.ID == p.Self) && r.Scope.Owns(namespace) && r.Selects(labels)
	})
}

// WorkIn reports whether another instance works in a namespace.
func (p *Peers) WorkIn(namespace string) bool {
	instances, _ := p.registered()
	return slices.ContainsFunc(instances, func(r Registered) bool {
		return r.Alive && r.ID != p.Self && r.Works.Owns(namespace)
	})
}

// look is share, and says what has changed.
func (p *Peers) look() (Share, time.Time) {
	share, unowned, until := p.share()
	p.Metrics.set(share, unowned)
	p.say(share)
	p.tellGone()
	return share, until
}

// await returns where the process may work when that is anywhere: at once, as a rule. It says what it waits for.
func (p *Peers) await(ctx context.Context) (shard.Scope, error) {
	for {
		share, until := p.look()
		if !share.Scope.Empty() && !p.undecided() {
			p.mu.Lock()
			p.works = share.Scope
			p.mu.Unlock()
			return share.Scope, nil
		}
		if err := p.pause(ctx, until); err != nil {
			return shard.None(), err
		}
	}
}

// Watch watches over what the instance gets while the process works where StandBy said. It returns why the process has
// to end, in a sentence: the instance gets less, or more, or others may have taken this process for dead. The sentence
// is empty when the context ends.
func (p *Peers) Watch(ctx context.Context) string {
	p.mu.Lock()
	works := p.works
	p.mu.Unlock()
	var since time.Time // since when there would be more
	for {
		share, until := p.look()
		now := time.Now()
		p.mu.Lock()
		p.guard(now)
		p.mu.Unlock()
		lost, more := works.Without(share.Owned(p.Claim)), share.Scope.Without(works)
		switch {
		case p.Fence.ended() != "":
			return p.Fence.ended()
		case !lost.Empty():
			return fmt.Sprintf("This instance worked in %s, and another instance has %s now", works.MetricsLabel(), lost.MetricsLabel())
		case more.Empty():
			since = time.Time{}
		case since.IsZero():
			since = now
			until = earlier(until, now.Add(settle))
		case now.Sub(since) >= settle:
			return fmt.Sprintf("This instance works in %s, and gets %s as well now", works.MetricsLabel(), more.MetricsLabel())
		default:
			until = earlier(until, since.Add(settle))
		}
		if p.pause(ctx, until) != nil {
			return ""
		}
	}
}

// pause returns when a Lease changed or it is that time; zero is never. The error is that of the context.
func (p *Peers) pause(ctx context.Context, until time.Time) error {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(max(time.Until(until), time.Millisecond))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.kick:
	case <-p.Fence.lost:
	case <-due:
	}
	return nil
}

// earlier returns the earlier of two times. Zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
