package instance

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChangesOfPeersAreTold(t *testing.T) {
	w := newWorld(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.peers.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	told := func(reason string) {
		t.Helper()
		select {
		case <-w.peers.Changed():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody was told", reason)
		}
	}
	w.lease(other, "*", 0)
	w.peers.Observe()
	told("a peer appeared")
	w.clock.Step(calm)
	w.lease(other, "+a", 0)
	w.peers.Observe()
	told("a peer claims something else")
	for !w.clock.HasWaiters() { // The timer of the Lease is about to run.
	}
	w.clock.Step(16 * time.Second)
	told("a Lease ran out, of which no event tells")
	w.clock.Step(calm)
	w.lease(other, "+a", 0)
	w.peers.Observe()
	told("the peer is back")
	w.lease(other, "+a", 0, released)
	w.peers.Observe()
	for !w.clock.HasWaiters() { // There was an event a moment ago: this one is about to wait.
	}
	w.clock.Step(calm)
	told("the peer stopped")
	w.lease(me, "*", 0)
	w.peers.Observe()
	select {
	case <-w.peers.Changed():
		t.Error("told of this very instance")
	default:
	}
}

func TestWhatIsSaidOfPeersDoesNotChangeWithEachWrite(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", -time.Hour)
	// look has the peers looked at, as after a write of a Lease, and returns whether that was told and when to look again.
	look := func() (bool, time.Duration) {
		t.Helper()
		next, err := w.peers.tell(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.peers.Changed():
			return true, next
		default:
			return false, next
		}
	}
	expect := func(reason string, wantTold bool, wantNext time.Duration, rivals ...ID) {
		t.Helper()
		told, next := look()
		if told != wantTold || next != wantNext {
			t.Errorf("%s: told %v, again in %v, want %v and %v", reason, told, next, wantTold, wantNext)
		}
		w.expect(reason, w.ask(me.String()), Verdict{Mine: true, Rivals: rivals})
	}
	const life = 15*time.Second + time.Millisecond
	w.lease(other, "*", 0)
	expect("a peer appears", true, life, other)
	for range 100 {
		w.lease(other, "+x", 0)
		expect("it claims something else at once", false, calm, other)
		w.lease(other, "*", 0)
		expect("and what it claimed before", false, life, other)
	}
	w.lease(other, "+x", 0)
	w.clock.Step(calm - time.Second)
	expect("the last change is not lost", false, time.Second, other)
	w.clock.Step(time.Second)
	expect("it is told when it is time", true, life-time.Second)
	w.lease(other, "*", 0, released)
	expect("it stops", false, calm)
	w.clock.Step(time.Hour)
	w.lease(other, "*", 0)
	expect("after a quiet time a change is told at once", true, life, other)
}

func TestALeaseIsBelievedForMinutesAtMost(t *testing.T) {
	decades := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) }
	for name, elected := range map[string]bool{"Elected": true, "WithoutElection": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, elected)
			w.lease(me, "*", 0)
			w.lease(other, "*", -time.Hour, decades)
			w.expect("it is alive", w.ask("two/archelon"), Verdict{By: other})
			w.clock.Step(longestLease - time.Second)
			w.expect("it may be alive", w.ask("two/archelon"), Verdict{By: other})
			w.clock.Step(time.Second)
			w.expect("an instance would have renewed it long since", w.ask("two/archelon"), Verdict{Mine: true})
		})
	}
}

func TestTheEldestLeasesAreLookedAt(t *testing.T) {
	w := newWorld(t, true)
	created := func(after time.Duration) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.CreationTimestamp = metav1.NewTime(begin.Add(after)) }
	}
	for i := range mostPeers + 44 {
		// They claim to be there for ever.
		w.lease(ID{Namespace: "a", Name: fmt.Sprintf("fake-%d", i)}, "*", -24*time.Hour, created(time.Second))
	}
	w.lease(other, "*", 0, created(0))
	w.lease(me, "*", 0, created(time.Hour))
	w.clock.Step(settle)
	verdict := w.ask(me.String())
	if len(verdict.Rivals) != mostPeers || verdict.Rivals[mostPeers-1] != other {
		t.Errorf("%d rivals, the last of them %v, want %d with %s among them", len(verdict.Rivals), verdict.Rivals[len(verdict.Rivals)-1], mostPeers, other)
	}
	w.expect("what it stands on stays with it", w.ask(other.String()), Verdict{By: other})
}

func TestAClaimIsReadWhenItChanges(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", 0)
	w.lease(other, "+watch1", 0)
	w.ask("")
	first := w.peers.seen[other].claim
	w.lease(other, "+watch1", 0, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: begin.Add(time.Second)} })
	w.ask("")
	if got := w.peers.seen[other].claim; got != first {
		t.Errorf("a renewed Lease was read again")
	}
	w.lease(other, "+watch2", 0)
	w.ask("")
	if got := w.peers.seen[other].claim; got == first || got.Scope.Encode() != "+watch2" {
		t.Errorf("another claim was not read: %v", got)
	}
}
