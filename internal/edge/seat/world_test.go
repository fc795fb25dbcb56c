package seat

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	rancherNamespace = "archelon-system"
	origin           = types.UID("8bb1a12f-a8b4-4c91-b1e3-c79001c64059")
)

var memoryKey = types.NamespacedName{Namespace: "archelon-system", Name: MemoryName("archelon")}

// leases are those of a cluster, with optimistic locking.
type leases struct {
	coordinationclient.LeaseInterface // what nobody uses

	all     map[string]*coordinationv1.Lease
	version int
	// befall is called before a write is carried out, and after it.
	befall func(answered bool) error
}

func newLeases(names ...string) *leases {
	l := &leases{all: map[string]*coordinationv1.Lease{}, befall: func(bool) error { return nil }}
	for _, name := range names {
		l.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return l
}

// copied are the same in another cluster.
func (l *leases) copied() *leases {
	return &leases{all: maps.Clone(l.all), version: l.version, befall: func(bool) error { return nil }}
}

func (l *leases) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	l.version++
	lease = lease.DeepCopy()
	lease.ResourceVersion = strconv.Itoa(l.version)
	l.all[lease.Name] = lease
	return lease.DeepCopy()
}

func resource(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (l *leases) Leases(string) coordinationclient.LeaseInterface { return l }

func (l *leases) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.all[name] == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	return l.all[name].DeepCopy(), nil
}

func (l *leases) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.write(func() (*coordinationv1.Lease, error) {
		if l.all[lease.Name] != nil {
			return nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), lease.Name)
		}
		return l.put(lease), nil
	})
}

func (l *leases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.write(func() (*coordinationv1.Lease, error) {
		found := l.all[lease.Name]
		if found == nil {
			return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), lease.Name)
		}
		if found.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, nil)
		}
		return l.put(lease), nil
	})
}

func (l *leases) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	if l.all[name] == nil {
		return apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	delete(l.all, name)
	return nil
}

func (l *leases) write(send func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := l.befall(false); err != nil {
		return nil, err
	}
	written, err := send()
	if lost := l.befall(true); lost != nil {
		return nil, lost
	}
	return written, err
}

// world is Rancher's cluster, and the time.
type world struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	rancher *leases
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), rancher: newLeases(LeaseName(origin))}
}

// place is where the seat of a management cluster is.
func (w *world) place(management *leases) Place {
	return Place{Origin: origin, Rancher: w.rancher, RancherNamespace: rancherNamespace, Management: management, Memory: memoryKey}
}

// start begins a process in a management cluster.
func (w *world) start(management *leases, change ...func(*Options)) *Seat {
	w.t.Helper()
	opts := Options{
		Place: w.place(management), Self: "archelon",
		Timing: DefaultTiming(), Lost: func(string) {}, Logger: logr.Discard(), Clock: w.clock,
	}
	for _, c := range change {
		c(&opts)
	}
	s, err := New(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// pass has processes take their steps for some time.
func (w *world) pass(d time.Duration, running ...*Seat) {
	w.t.Helper()
	for end := w.clock.Now().Add(d); !w.clock.Now().After(end); w.clock.Step(DefaultTiming().Renew) {
		for _, s := range running {
			s.step(w.t.Context())
		}
		w.oneAtMost(running...)
	}
}

// oneAtMost fails if two may write.
func (w *world) oneAtMost(running ...*Seat) {
	w.t.Helper()
	var writes []string
	for _, s := range running {
		if s.Check() == nil {
			writes = append(writes, s.name)
		}
	}
	if len(writes) > 1 {
		w.t.Fatalf("%v may all write", writes)
	}
}

func (w *world) may(s *Seat, want bool) {
	w.t.Helper()
	if err := s.Check(); (err == nil) != want {
		w.t.Fatalf("may %s write? %v", s.name, err)
	}
}
