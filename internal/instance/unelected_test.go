package instance

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/archelon-io/archelon/internal/shard"
)

// turn is a process that takes turns on the Lease of instance a.
type turn struct {
	t    *testing.T
	name string
	lock resourcelock.Interface
}

func newTurn(t *testing.T, on *line, name string, unelected *Unelected) *turn {
	t.Helper()
	fence := newFence(t).Fence
	fence.identity = name
	lock, err := NewLock(LockOptions{
		Self: ID{Namespace: system, Name: "a"}, Works: shard.Scope{}, Leases: on, Identity: name, Fence: fence, Unelected: unelected,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &turn{t, name, lock}
}

// sees returns who holds the Lease, as far as the process is concerned.
func (p *turn) sees() string {
	p.t.Helper()
	record, _, err := p.lock.Get(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return record.HolderIdentity
}

func (p *turn) take() error {
	return p.lock.Update(p.t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: p.name, LeaseDurationSeconds: 15})
}

// A process that is not elected takes the Lease from another one without waiting, once, and from no elected one.
func TestUnelected(t *testing.T) {
	t.Parallel()
	on := &line{server: newServer()}
	first := newTurn(t, on, "first", &Unelected{})
	if err := first.lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "first"}); err != nil {
		t.Fatal(err)
	}
	if holder := first.sees(); holder != "first" {
		t.Errorf("the holder sees %q", holder)
	}
	elected, second, third := newTurn(t, on, "elected", nil), newTurn(t, on, "second", &Unelected{}), newTurn(t, on, "third", &Unelected{})
	if holder := elected.sees(); holder != "first" {
		t.Errorf("an elected one sees %q, and has to wait like any other", holder)
	}
	for _, p := range []*turn{second, third} {
		if holder := p.sees(); holder != "" {
			t.Errorf("%s sees %q, and would wait", p.name, holder)
		}
	}
	if err := second.take(); err != nil {
		t.Fatal(err)
	}
	if third.take() == nil {
		t.Error("two processes have taken the same Lease")
	}
	if holder := first.sees(); holder != "second" {
		t.Errorf("who was displaced sees %q, and would take it back", holder)
	}
	if err := elected.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "elected"}); err == nil {
		t.Error("an elected one has taken the Lease with an old version of it")
	}
	if elected.sees(); elected.take() != nil {
		t.Fatal("the Lease was not written")
	}
	if holder := third.sees(); holder != "elected" {
		t.Errorf("an unelected one sees %q, and would take the Lease from an elected one", holder)
	}
	lease, err := on.Get(t.Context(), ID{Name: "a"}.LeaseName(), metav1.GetOptions{})
	if err != nil || lease.Annotations["archelon.io/unelected"] != "" {
		t.Errorf("the Lease of an elected one has annotations %v (%v)", lease.Annotations, err)
	}
}
