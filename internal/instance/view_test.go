package instance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestChangesOfPeersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its time passes when all that runs waits.
		w := newWorldAt(t, true, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.peers.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		told := func(reason string, within time.Duration) {
			t.Helper()
			select {
			case <-w.peers.Changed():
			case <-time.After(within):
				t.Fatalf("%s: nobody was told", reason)
			}
		}
		const soon = time.Millisecond
		w.lease(other, "*", 0)
		told("a peer appeared", soon)
		time.Sleep(calm) //nolint:forbidigo // fake time
		w.lease(other, "+a", 0)
		told("a peer claims something else", soon)
		told("a Lease ran out, of which no event tells", 15*time.Second+soon)
		time.Sleep(calm) //nolint:forbidigo // fake time
		w.lease(other, "+a", 0)
		told("the peer is back", soon)
		w.lease(other, "+a", 0, released)
		told("the peer stopped, a moment after the last change", calm+soon)
		w.lease(me, "*", 0)
		synctest.Wait()
		select {
		case <-w.peers.Changed():
			t.Error("told of this very instance")
		default:
		}
	})
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
	const life = 15 * time.Second
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

func TestLeasesAreReadWhenOneChanged(t *testing.T) {
	w := newWorld(t, true)
	lists := 0
	w.peers.leases = interceptor.NewClient(w.leases, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			lists++
			return c.List(ctx, list, o...)
		},
	})
	expect := func(reason string, want int) {
		t.Helper()
		for range 100 {
			w.ask(me.String())
		}
		if lists != want {
			t.Errorf("%s: they were listed %d times, want %d", reason, lists, want)
		}
	}
	w.lease(me, "*", 0)
	w.lease(other, "*", 0)
	expect("many clusters ask", 1)
	w.lease(other, "+watch1", 0)
	expect("one changed", 2)
	w.clock.Step(15 * time.Second)
	expect("one ran out", 3)
	w.expect("and is seen to be gone", w.ask(other.String()), Verdict{Mine: true})
}

func TestWithoutACoordinationNamespaceThereAreNoOthers(t *testing.T) {
	peers, err := NewPeers(ID{Name: "archelon"}, false, nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := peers.OwnerOf(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "watch1", Name: "c"}})
	if err != nil || !verdict.Mine {
		t.Errorf("got %v, %v", verdict, err)
	}
}

// A cluster that is gone is forgotten, but not at the price of a look at all of them for each.
func TestClustersThatAreLeftToOthersAreForgottenNowAndThen(t *testing.T) {
	w := newWorld(t, true)
	w.peers.graceLeft("gone")
	w.clock.Step(10 * grace)
	w.peers.graceLeft("here")
	w.clock.Step(time.Second)
	for _, uid := range []types.UID{"here", "also"} {
		w.peers.graceLeft(uid)
	}
	if got := len(w.peers.unclaimed); got != 3 {
		t.Errorf("%d are known, want 3: they were looked through a second ago", got)
	}
	w.clock.Step(grace)
	w.peers.graceLeft("also")
	if got := len(w.peers.unclaimed); got != 2 {
		t.Errorf("%d are known, want the 2 that are there", got)
	}
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
