package instance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

var (
	begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	me    = ID{Namespace: "one", Name: "archelon"}
	other = ID{Namespace: "two", Name: "archelon"}
)

// world is a set of Leases and what one instance makes of them.
type world struct {
	t      *testing.T
	leases client.WithWatch
	clock  *testingclock.FakeClock
	peers  *Peers
}

func newWorld(t *testing.T, elected bool) *world {
	t.Helper()
	steps := testingclock.NewFakeClock(begin)
	w := newWorldAt(t, elected, steps)
	w.clock = steps
	return w
}

// newWorldAt is a world whose time passes by c.
func newWorldAt(t *testing.T, elected bool, c clock.WithTicker) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, leases: fake.NewClientBuilder().WithScheme(scheme).Build()}
	var err error
	if w.peers, err = NewPeers(me, elected, w.leases, c); err != nil {
		t.Fatal(err)
	}
	return w
}

// lease writes the Lease of an instance that began so long after the beginning.
func (w *world) lease(id ID, scope string, began time.Duration, change ...func(*coordinationv1.Lease)) {
	w.t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: id.Namespace, Name: id.LeaseName(),
			Labels: map[string]string{archelonv1.InstanceLabel: id.Name}, Annotations: map[string]string{archelonv1.ScopeAnnotation: scope},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("replica"), LeaseDurationSeconds: new(int32(15)),
			AcquireTime: &metav1.MicroTime{Time: begin.Add(began)}, RenewTime: &metav1.MicroTime{Time: w.peers.clock.Now()},
		},
	}
	for _, c := range change {
		c(lease)
	}
	known := &coordinationv1.Lease{}
	err := w.leases.Get(w.t.Context(), client.ObjectKeyFromObject(lease), known)
	if err != nil {
		err = w.leases.Create(w.t.Context(), lease)
	} else {
		lease.ResourceVersion = known.ResourceVersion
		err = w.leases.Update(w.t.Context(), lease)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.peers.Observe()
}

func released(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("") }

func filtered(value string) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) { lease.Annotations[archelonv1.WatchFilterAnnotation] = value }
}

// ask returns the verdict on a cluster in namespace watch1.
func (w *world) ask(stands string) Verdict {
	w.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "watch1", Name: "c", UID: "uid-1", Labels: map[string]string{clusterv1.WatchLabel: "blue"}}}
	if stands != "" {
		cluster.Annotations = map[string]string{archelonv1.InstanceAnnotation: stands}
	}
	verdict, err := w.peers.OwnerOf(w.t.Context(), cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	return verdict
}

func (w *world) expect(reason string, got, want Verdict) {
	w.t.Helper()
	if len(got.Rivals) == 0 {
		got.Rivals = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: %s", reason, diff)
	}
}

func TestOwnerOf(t *testing.T) {
	mine, theirs, theirsForNow := Verdict{Mine: true}, Verdict{By: other}, Verdict{By: other, Retry: grace}
	contested := Verdict{Mine: true, Rivals: []ID{other}}
	for name, tc := range map[string]struct {
		reason string
		setUp  func(*world)
		stands string
		want   Verdict
	}{
		"Alone":           {reason: "nobody else has a Lease", setUp: func(w *world) { w.lease(me, "*", 0) }, want: mine},
		"AloneOnAnothers": {reason: "the one that stands on it has no Lease", setUp: func(w *world) { w.lease(me, "*", 0) }, stands: "two/archelon", want: mine},
		"Apart":           {reason: "the other one works elsewhere", setUp: func(w *world) { w.lease(me, "+watch1", 0); w.lease(other, "-watch1", -time.Hour) }, want: mine},
		"HandedOver":      {reason: "it stands on the cluster and has it in its scope no more", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "-watch1", -time.Hour) }, stands: "two/archelon", want: mine},
		"Filtered":        {reason: "the other one's filter does not fit", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "*", -time.Hour, filtered("red")) }, want: mine},
		"FilterFits":      {reason: "both claim the cluster", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "*", -time.Hour, filtered("blue")) }, want: theirsForNow},
		"SecondOnNew":     {reason: "the other one was first", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "+watch1", -time.Hour) }, want: theirsForNow},
		"FirstOnNew":      {reason: "this one was first", setUp: func(w *world) { w.lease(me, "*", -time.Hour); w.lease(other, "+watch1", 0) }, want: contested},
		"StandsForLater":  {reason: "what it works on stays with it", setUp: func(w *world) { w.lease(me, "*", -time.Hour); w.lease(other, "+watch1", 0) }, stands: "two/archelon", want: theirs},
		"StandsForMe":     {reason: "what this one works on stays with it", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "+watch1", -time.Hour) }, stands: "one/archelon", want: contested},
		"Released":        {reason: "the other one has stopped", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "*", -time.Hour, released) }, stands: "two/archelon", want: mine},
		"SameTime":        {reason: "names decide", setUp: func(w *world) { w.lease(me, "*", -time.Hour); w.lease(other, "*", -time.Hour) }, want: contested},
		"ForeignLease":    {reason: "a Lease that no instance wrote", setUp: func(w *world) { w.lease(me, "*", 0); w.lease(other, "everything", -time.Hour) }, want: mine},
		"StrangeLeaseName": {reason: "a label alone makes no instance", setUp: func(w *world) {
			w.lease(me, "*", 0)
			w.lease(other, "*", -time.Hour, func(l *coordinationv1.Lease) { l.Name = "x" })
		}, want: mine},
		"OwnLeaseUnseen": {reason: "the cache is behind", setUp: func(w *world) { w.lease(other, "*", -time.Hour) }, want: Verdict{Retry: glance}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			w.clock.Step(settle)
			tc.setUp(w)
			w.expect(tc.reason, w.ask(tc.stands), tc.want)
		})
	}
}

func TestDeserted(t *testing.T) {
	type answer struct {
		Deserted bool
		Retry    time.Duration
	}
	for name, tc := range map[string]struct {
		reason string
		setUp  func(*world)
		stands string
		wait   time.Duration
		want   answer
	}{
		"Alone":     {reason: "nobody else is there", setUp: func(*world) {}, want: answer{Deserted: true}},
		"Mine":      {reason: "this one stands on it", setUp: func(w *world) { w.lease(other, "-watch1", 0) }, stands: "one/archelon", want: answer{Deserted: true}},
		"Filtered":  {reason: "nobody's filter fits, and nobody stands on it", setUp: func(w *world) { w.lease(other, "*", 0, filtered("red")) }, want: answer{Deserted: true}},
		"Theirs":    {reason: "the other one stands on it, and claims it as little as this one", setUp: func(w *world) { w.lease(other, "*", 0, filtered("red")) }, stands: "two/archelon"},
		"Gone":      {reason: "the one that stands on it has stopped", setUp: func(w *world) { w.lease(other, "*", 0, released) }, stands: "two/archelon", want: answer{Deserted: true}},
		"Claimed":   {reason: "the other one takes it over", setUp: func(w *world) { w.lease(other, "*", 0, filtered("blue")) }, stands: "one/archelon", want: answer{Retry: grace}},
		"Neglected": {reason: "the other one does nothing", setUp: func(w *world) { w.lease(other, "*", 0) }, wait: grace, want: answer{Deserted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			w.lease(me, "*", 0, filtered("green"))
			tc.setUp(w)
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "watch1", Name: "c", UID: "uid-1", Labels: map[string]string{clusterv1.WatchLabel: "blue"}}}
			if tc.stands != "" {
				cluster.Annotations = map[string]string{archelonv1.InstanceAnnotation: tc.stands}
			}
			ask := func() (got answer) {
				var err error
				if got.Deserted, got.Retry, err = w.peers.Deserted(t.Context(), cluster); err != nil {
					t.Fatal(err)
				}
				return got
			}
			got := ask()
			if tc.wait > 0 {
				w.clock.Step(tc.wait)
				tc.setUp(w) // It is renewed.
				got = ask()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

func TestAnInstanceKeepsStillWhenItMeetsOthers(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", 0)
	w.lease(other, "*", time.Second) // by a clock that is ahead
	w.expect("the other one may not have seen this one yet", w.ask(""), Verdict{Retry: settle})
	w.clock.Step(settle)
	w.expect("both have seen each other", w.ask(""), Verdict{Mine: true, Rivals: []ID{other}})
}

func TestWithoutElectionEverythingIsLeftToOthers(t *testing.T) {
	w := newWorld(t, false)
	w.expect("nobody else", w.ask(""), Verdict{Mine: true})
	w.lease(other, "+watch1", time.Hour)
	w.expect("nobody can see an instance without a Lease", w.ask(""), Verdict{By: other})
}

func TestALeaseRunsOut(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", 0)
	w.lease(other, "*", -time.Hour)
	w.clock.Step(settle)
	w.expect("it is alive", w.ask("two/archelon"), Verdict{By: other})
	w.clock.Step(14 * time.Second)
	w.lease(me, "*", 0)
	w.expect("it may still come back", w.ask("two/archelon"), Verdict{By: other})
	w.lease(other, "*", -time.Hour, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: begin} })
	w.expect("renewed, whatever its clock says", w.ask("two/archelon"), Verdict{By: other})
	w.clock.Step(15 * time.Second)
	w.lease(me, "*", 0)
	w.expect("gone for longer than its Lease", w.ask("two/archelon"), Verdict{Mine: true})
}

func TestAClusterThatNobodyStandsOnIsNotLeftForGood(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", 0)
	w.lease(other, "*", -time.Hour, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(3600)) })
	w.clock.Step(settle)
	w.expect("the other one was first", w.ask(""), Verdict{By: other, Retry: grace})
	w.clock.Step(grace / 2)
	w.expect("it may be busy", w.ask(""), Verdict{By: other, Retry: grace / 2})
	w.clock.Step(grace / 2)
	w.expect("it does not do anything", w.ask(""), Verdict{Mine: true, Rivals: []ID{other}})
	w.expect("it stands on it after all", w.ask("two/archelon"), Verdict{By: other})
	w.expect("and has let go", w.ask(""), Verdict{By: other, Retry: grace})
}

func TestLeasesThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t, true)
	w.lease(me, "*", 0)
	w.lease(other, "*", 0)
	w.ask("")
	if err := w.leases.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.LeaseName()}}); err != nil {
		t.Fatal(err)
	}
	w.peers.Observe()
	w.clock.Step(calm)
	w.expect("it is gone", w.ask("two/archelon"), Verdict{Mine: true})
	if len(w.peers.seen) != 1 {
		t.Errorf("%d Leases are remembered, want one", len(w.peers.seen))
	}
}
