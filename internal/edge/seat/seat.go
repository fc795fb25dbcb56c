package seat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// LeaseName is the name of the Lease in Rancher's cluster that is the seat of a management cluster, by the UID of its
// kube-system.
func LeaseName(origin types.UID) string { return "archelon-" + string(origin) }

// Reasons of Events.
const takenReason = "RancherSeatTaken"

// Place is where a seat is, and what remembers who has had it. All fields are required.
type Place struct {
	// Origin is the management cluster.
	Origin types.UID
	// Rancher are the Leases of Rancher's cluster, and RancherNamespace is where the seat is.
	Rancher          coordinationclient.LeasesGetter
	RancherNamespace string
	// Management are the Leases of the management cluster, and Memory is the one by which this installation remembers
	// its names.
	Management coordinationclient.LeasesGetter
	Memory     types.NamespacedName
}

func (p Place) validate() error {
	if p.Origin == "" || p.Rancher == nil || p.RancherNamespace == "" || p.Management == nil || p.Memory.Name == "" || p.Memory.Namespace == "" {
		return errors.New("a seat needs the management cluster, and Leases on both sides")
	}
	return nil
}

// remembering returns the memory of the place.
func (p Place) remembering() *memory {
	return &memory{leases: p.Management.Leases(p.Memory.Namespace), key: p.Memory}
}

// Options are what a seat needs. All fields are required unless they say otherwise.
type Options struct {
	Place
	// Self is the name of this instance. Others show it to people.
	Self string
	// Timing are the times that the seat is kept by.
	Timing Timing
	// May returns why this process must not renew the seat, because another process of the same installation may have
	// taken over. Optional.
	May func() error
	// Lost is called with a sentence when somebody else has taken the seat. This process must end.
	Lost func(why string)
	// Tell publishes an Event. Optional. Reasons are in CamelCase.
	Tell func(reason, message string)
	// Logger says what is waited for. Optional.
	Logger logr.Logger
	// Clock is the time; default the real one.
	Clock clock.Clock
}

// Seat is the right to write the Rancher clusters of a management cluster.
type Seat struct {
	Options

	// name is that of this process on the Lease.
	name   string
	leases coordinationclient.LeaseInterface
	memory *memory
	// lease is what was read or written last.
	lease *coordinationv1.Lease

	// seen is what a process that waits saw last, since when, and alive whether somebody else lives. There is no since
	// before the first look.
	seen  sight
	since time.Time
	alive bool
	// sent are the renewals that may stand on the Lease: the last one that was answered, and those after it.
	sent []int64

	// writing is held for reading by each write, and for writing by the one who waits for them to end.
	writing sync.RWMutex
	held    chan struct{} // closed when the seat is held for the first time

	mu sync.Mutex
	// fresh is when the last renewal was sent; zero before the first.
	fresh time.Time
	// ended is whether the seat is not renewed any more, for good.
	ended bool
	// waits is why the process does not hold the seat; empty before it asks for it, and when it holds it.
	waits string
}

// New returns a seat that is not held. It fails if an option is missing.
func New(opts Options) (*Seat, error) {
	if opts.Self == "" || opts.Lost == nil {
		return nil, errors.New("a seat needs the name of the instance, and what is done when it is lost")
	}
	if err := errors.Join(opts.Place.validate(), opts.Timing.validate()); err != nil {
		return nil, err
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Tell == nil {
		opts.Tell = func(string, string) {}
	}
	if opts.May == nil {
		opts.May = func() error { return nil }
	}
	s := &Seat{Options: opts, name: opts.Self + "_" + string(uuid.NewUUID()), held: make(chan struct{})}
	s.leases = opts.Rancher.Leases(opts.RancherNamespace)
	s.memory = opts.remembering()
	return s, nil
}

// Run takes the seat and keeps it until the context ends. Then it waits for the writes under way, and gives the seat
// back to the next process of this installation. It returns early when the seat is lost.
func (s *Seat) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if s.step(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-s.Clock.After(s.Timing.Renew):
		}
	}
	s.park(context.WithoutCancel(ctx))
	return nil
}

// step takes or renews the seat, or does what comes before. It reports whether the seat is lost.
func (s *Seat) step(ctx context.Context) (lost bool) {
	switch {
	case s.isEnded():
		return true
	case s.hasBegun():
		return s.renew(ctx)
	}
	if err := s.ask(ctx); err != nil && ctx.Err() == nil {
		s.waitFor(s.refused(err))
	}
	return false
}

// hasBegun reports whether the seat has been held.
func (s *Seat) hasBegun() bool {
	select {
	case <-s.held:
		return true
	default:
		return false
	}
}

// ask looks who has the seat, and takes it if it may.
func (s *Seat) ask(ctx context.Context) error {
	if err := s.memory.read(ctx); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	now := s.Clock.Now() // Whoever renewed the seat did so before.
	if seen := sightOf(s.lease); s.since.IsZero() || seen != s.seen {
		s.alive = seen.holder != "" && (s.alive || !s.since.IsZero() && !s.mine())
		s.seen, s.since = seen, now
	}
	v := view{
		sight: s.seen, quiet: now.Sub(s.since), alive: s.alive, own: s.mine(), remembered: s.memory.has(s.seen.holder),
	}
	next := decide(v, s.Timing)
	var err error
	switch next {
	case forget:
		s.waitFor(s.explain(v, next))
		return s.memory.write(ctx)
	case standBy, watch:
		s.waitFor(s.explain(v, next))
		return nil
	case inherit:
		err = s.memory.write(ctx, v.holder, s.name) // Both, for nobody knows which one is there if this process ends now.
	case take, replace:
		err = s.memory.write(ctx, s.name)
	}
	if err != nil {
		return err
	}
	return s.sit(ctx, next)
}

// sit writes the name of this process on the Lease.
func (s *Seat) sit(ctx context.Context, how step) error {
	if err := s.May(); err != nil {
		return err
	}
	former := s.seen.holder
	if err := s.write(ctx, s.Timing.Expire); err != nil {
		if apierrors.IsConflict(err) {
			return nil // Somebody was faster. The next look says who.
		}
		return err
	}
	if how == replace {
		text := fmt.Sprintf("Took over from Archelon %s, which was silent for %v. This Archelon now manages the Rancher clusters of this management cluster",
			shown(former), s.Timing.Expire)
		s.Logger.Info(text)
		s.Tell(takenReason, text)
	}
	s.waitFor("")
	close(s.held)
	return nil
}

// mostSent is how many renewals are remembered that were not answered. One that is older is not under way any more.
const mostSent = 32

// write renews the seat, for as long as others are to take it for held.
func (s *Seat) write(ctx context.Context, lasts time.Duration) error {
	now := s.Clock.Now()
	s.sent = append(s.sent, now.UnixMicro())
	if more := len(s.sent) - mostSent; more > 0 {
		s.sent = slices.Delete(s.sent, 1, 1+more) // The first is what the Lease said last.
	}
	lease := s.lease.DeepCopy()
	spec := &lease.Spec
	if ptr.Deref(spec.HolderIdentity, "") != s.name {
		spec.AcquireTime, spec.LeaseTransitions = &metav1.MicroTime{Time: now}, new(ptr.Deref(spec.LeaseTransitions, 0)+1)
	}
	spec.HolderIdentity, spec.RenewTime, spec.LeaseDurationSeconds = &s.name, &metav1.MicroTime{Time: now}, new(int32(min(lasts/time.Second, math.MaxInt32))) //nolint:gosec // it fits
	written, err := s.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	s.lease, s.sent = written, []int64{now.UnixMicro()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = now
	return nil
}

// read brings the Lease up to date.
func (s *Seat) read(ctx context.Context) error {
	lease, err := s.leases.Get(ctx, LeaseName(s.Origin), metav1.GetOptions{})
	if err == nil {
		s.lease = lease
	}
	return err
}

// mine reports whether this very process has written what the Lease says. The name is not enough: a virtual machine may
// be copied while it runs, with the process in it.
func (s *Seat) mine() bool {
	seen := sightOf(s.lease)
	return seen.holder == s.name && slices.Contains(s.sent, seen.renewed)
}

// renew renews the seat. What fails is tried again: as long as nobody else is on the Lease, nobody has written. It
// reports whether somebody is.
func (s *Seat) renew(ctx context.Context) (lost bool) {
	err := s.May()
	if err == nil {
		err = s.write(ctx, s.Timing.Expire)
	}
	if err == nil || ctx.Err() != nil {
		return false
	}
	readErr := s.read(ctx)
	switch {
	case readErr != nil:
		err = readErr
	case !s.mine():
		s.end()
		s.Lost("This Archelon stops, because another one has taken over this management cluster in Rancher's cluster: " + shown(ptr.Deref(s.lease.Spec.HolderIdentity, "")))
		return true
	case apierrors.IsConflict(err):
		return false // Somebody wrote something else on it. The next renewal is of what was read.
	}
	s.Logger.Info("Renewing the registration of this management cluster failed; trying again", "cause", err.Error())
	return false
}
