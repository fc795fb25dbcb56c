package importer

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

const turtlesHolds = "capicluster.turtles.cattle.io"

// turtlesRuns returns the Lease of a Turtles that runs.
func turtlesRuns() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-turtles-system", Name: "controller-leader-election-rancher-turtles", UID: "lease-1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("turtles-0"), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NowMicro())},
	}
}

// touched has the finalizer of Turtles on an object, as Turtles puts it there.
func touched(object client.Object) {
	object.SetFinalizers(append(object.GetFinalizers(), turtlesHolds))
}

// now returns what the cluster and its namespace are at this moment.
func (b *bench) now(t *testing.T) *Observation {
	t.Helper()
	o, err := b.observe(t.Context(), client.ObjectKeyFromObject(testCluster()))
	if err != nil || o.cluster == nil {
		t.Fatalf("there is no cluster, or %v", err)
	}
	o.intent = b.Decide(*o, b.clock.Now()).Intent
	return o
}

// turtlesPhases runs the phases of an import that are about Turtles.
func (b *bench) turtlesPhases(t *testing.T) outcome.Outcome {
	t.Helper()
	o := b.now(t)
	rules := slices.DeleteFunc(rulesOf(o.intent), func(r rule) bool { return !slices.Contains([]string{"turtles", "adopt", "neighbours"}, r.name) })
	return b.run(t.Context(), o, func(o Observation, now time.Time) Decision {
		d := &deciding{Rules: b.Rules, Observation: &o, now: now}
		return d.by(rules)
	}).Outcome
}

// While Turtles holds its Lease, imports and adoption go on only where an administrator says that it is parked. Without
// a word about the cluster, what Turtles has touched stays refused all the same.
func TestTurtlesParked(t *testing.T) {
	selected := func(c *clusterv1.Cluster) {
		c.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": "true"}
	}
	asked := annotated("archelon.io/managed-by", "archelon")
	theirs := func(c *clusterv1.Cluster) { touched(c) }
	record := func() client.Object {
		r := v3Record()
		r.Finalizers = []string{turtlesHolds}
		delete(r.Labels, "archelon.io/capi-cluster-uid")
		return r
	}
	followed := func() client.Object {
		r := v3Record()
		touched(r)
		return r
	}
	for name, tc := range map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		record  client.Object
		adopt   bool
		// runs and parked are the reasons to stop where Turtles imports, and where it is parked; empty for none.
		runs, parked string
		// released is whether a parked Turtles has lost what it held.
		released bool
	}{
		"New":           {reason: "it would be imported twice", cluster: testCluster(selected), runs: "TurtlesActive"},
		"NewUnderAdopt": {reason: "there is nothing to adopt", cluster: testCluster(selected), adopt: true, runs: "TurtlesActive"},
		"Divided":       {reason: "the cluster is assigned", cluster: testCluster(selected, asked)},
		"Imported":      {reason: "it stays imported", cluster: testCluster(selected, held), record: v3Record()},
		"Theirs":        {reason: "nobody asked", cluster: testCluster(selected, theirs), record: record(), runs: "TurtlesActive", parked: "ManagedByTurtles"},
		"TheirRecord":   {reason: "nobody asked", cluster: testCluster(selected), record: record(), runs: "TurtlesActive", parked: "ManagedByTurtles"},
		"Followed":      {reason: "nobody asked", cluster: testCluster(selected, held, theirs), record: followed(), runs: "ManagedByTurtles", parked: "ManagedByTurtles"},
		"Adopted":       {reason: "asked for the cluster", cluster: testCluster(selected, asked, theirs), record: record(), runs: "TurtlesActive", released: true},
		"AdoptedAll":    {reason: "asked for all", cluster: testCluster(selected, theirs), record: record(), adopt: true, runs: "TurtlesActive", released: true},
		"TakenBack": {
			reason: "Turtles followed the import before it was parked", cluster: testCluster(selected, held, theirs), record: followed(), adopt: true,
			runs: "ManagedByTurtles", released: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for parked, want := range map[bool]string{false: tc.runs, true: tc.parked} {
				objects := []client.Object{turtlesRuns(), tc.cluster.DeepCopy()}
				if tc.record != nil {
					objects = append(objects, tc.record.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy
				}
				b := newBench(t, instance.Claim{}, objects...)
				b.AdoptTurtles, b.TurtlesParked = tc.adopt, parked
				if out := b.turtlesPhases(t); out.Reason != want {
					t.Errorf("%s (parked: %t): got %q %s, want %q", tc.reason, parked, out.Reason, out.Message, want)
				}
				before := hasFinalizer(tc.cluster) || tc.record != nil && hasFinalizer(tc.record)
				if want := before && (!tc.released || !parked); b.turtlesHoldsAnything(t) != want {
					t.Errorf("%s (parked: %t): Turtles holds something: %t, want %t", tc.reason, parked, !want, want)
				}
			}
		})
	}
}

func hasFinalizer(object client.Object) bool {
	return slices.Contains(object.GetFinalizers(), turtlesHolds)
}

// turtlesHoldsAnything reports whether the cluster or the record has the finalizer of Turtles.
func (b *bench) turtlesHoldsAnything(t *testing.T) bool {
	t.Helper()
	cluster, record := testCluster(), v3Record()
	return b.there(t, cluster) && hasFinalizer(cluster) || b.there(t, record) && hasFinalizer(record)
}

// An administrator says that Turtles is parked, and it is not. It puts its finalizers back on
// whatever it finds, at once.
func TestATurtlesThatIsNotParkedIsNotFought(t *testing.T) {
	cluster, record := testCluster(held, annotated("archelon.io/managed-by", "archelon")), v3Record()
	lease := turtlesRuns()
	b := newBench(t, instance.Claim{}, lease, cluster, record)
	b.TurtlesParked = true
	strikes := func() {
		t.Helper()
		for _, object := range []client.Object{testCluster(), v3Record()} {
			b.there(t, object)
			touched(object)
			if err := b.Client.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	renews := func(holder string) {
		t.Helper()
		b.there(t, lease)
		lease.Spec.HolderIdentity = &holder
		if err := b.Client.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(reason string, taken bool) {
		t.Helper()
		out := b.turtlesPhases(t)
		if taken != out.IsDone() || taken == b.turtlesHoldsAnything(t) {
			t.Fatalf("%s: got %q %q, and Turtles holds something: %t", reason, out.Reason, out.Message, b.turtlesHoldsAnything(t))
		}
		if !taken && (out.Reason != "ManagedByTurtles" || !strings.Contains(out.Message, "although the Helm value turtles.parked is true") || out.Kind != outcome.KindPoll) {
			t.Fatalf("%s: got %s %q %q, want it to say that Turtles is not parked", reason, out.Kind, out.Reason, out.Message)
		}
	}
	strikes()
	expect("it was touched before Turtles was parked, as far as anybody knows", true)
	strikes()
	for range 3 {
		expect("it is back, and the same Turtles runs", false)
		b.clock.Step(10 * time.Second)
		renews("turtles-0")
	}
	renews("turtles-1")
	expect("another Turtles runs, which may be parked", true)
	strikes()
	expect("it is not", false)
	b.clock.Step(time.Minute)
	expect("Turtles runs no more", true)
}

// The process or a request failed after the cluster was claimed. That is no fight, so the adoption goes on.
func TestAnAdoptionThatWasInterruptedGoesOn(t *testing.T) {
	record := v3Record()
	record.Finalizers = []string{turtlesHolds}
	delete(record.Labels, "archelon.io/capi-cluster-uid")
	b := newBench(t, instance.Claim{}, turtlesRuns(), testCluster(held, annotated("archelon.io/managed-by", "archelon")), record)
	b.TurtlesParked = true
	o := b.now(t)
	if err := (askTurtles{}).read(t.Context(), b.Reconciler, o); err != nil {
		t.Fatal(err)
	}
	b.takings.Note(o.key, o.taking(o.lease))
	if out := b.turtlesPhases(t); !out.IsDone() || b.turtlesHoldsAnything(t) {
		t.Errorf("got %q %q, and Turtles holds something: %t", out.Reason, out.Message, b.turtlesHoldsAnything(t))
	}
}

func TestAssignedTo(t *testing.T) {
	key := func(value string) map[string]string { return map[string]string{"archelon.io/managed-by": value} }
	for name, tc := range map[string]struct {
		reason             string
		cluster, namespace map[string]string
		to, where, problem string
	}{
		"Nobody":       {reason: "neither says anything"},
		"Namespace":    {reason: "it is for all of its clusters", namespace: key("archelon"), to: "archelon", where: "Label"},
		"Cluster":      {reason: "it needs no namespace", cluster: key("rancher-turtles"), to: "rancher-turtles", where: "Annotation"},
		"ClusterWins":  {reason: "it is nearer", cluster: key("archelon"), namespace: key("rancher-turtles"), to: "archelon", where: "Annotation"},
		"Empty":        {reason: "as the options say", cluster: key(""), namespace: key("rancher-turtles"), where: "Annotation"},
		"BadCluster":   {reason: "a mistake is not the namespace's", cluster: key("me"), namespace: key("archelon"), where: "Annotation", problem: "Annotation archelon.io/managed-by cannot be used: it must be"},
		"BadNamespace": {reason: "a mistake is told", namespace: key("me"), where: "Label", problem: "Label archelon.io/managed-by of the Namespace cannot be used: it must be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := assignedTo(tc.cluster, tc.namespace)
			if got.to != tc.to || !strings.HasPrefix(got.where, tc.where) || (got.problem != nil) != (tc.problem != "") {
				t.Fatalf("%s: got %+v", tc.reason, got)
			}
			if out := outcome.FromError(got.problem, "InternalError"); tc.problem != "" && (out.Reason != "InvalidSetting" || !strings.Contains(out.Message, tc.problem)) {
				t.Errorf("%s: got %q %q", tc.reason, out.Reason, out.Message)
			}
		})
	}
}

// The label of a Namespace assigns what is in it, whether the Namespace has the import label or not.
func TestTheNamespaceAssignsItsClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		to      string
		cluster *clusterv1.Cluster
		want    intent
		stops   string
	}{
		"Archelon":  {reason: "the work is divided", to: "archelon", cluster: testCluster(held), want: intentImport},
		"Turtles":   {reason: "Turtles is to import it", to: "rancher-turtles", cluster: testCluster(labelled("true")), want: intentImport, stops: "AssignedToTurtles"},
		"Overruled": {reason: "the Cluster's own annotation wins", to: "rancher-turtles", cluster: testCluster(held, annotated("archelon.io/managed-by", "archelon")), want: intentImport},
		"Mistake":   {reason: "nobody knows what is meant", to: "me", cluster: testCluster(held), want: intentImport, stops: "InvalidSetting"},
		"Nobody":    {reason: "Turtles runs", to: "", cluster: testCluster(held), want: intentImport, stops: "TurtlesActive"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Labels: map[string]string{"archelon.io/managed-by": tc.to}}}
			b := newBench(t, instance.Claim{}, tc.cluster, namespace, turtlesRuns())
			s := b.now(t)
			if s.intent != tc.want {
				t.Fatalf("%s: got intent %s, want %s", tc.reason, s.intent, tc.want)
			}
			if tc.want != intentImport {
				return
			}
			if out := b.turtlesPhases(t); out.Reason != tc.stops {
				t.Errorf("%s: got %q %q, want %q", tc.reason, out.Reason, out.Message, tc.stops)
			}
		})
	}
}
