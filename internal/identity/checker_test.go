package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/test/simulation"
)

// checkedWorld is a controller that asks OCI about clusters, whose questions a test asks one after the other.
type checkedWorld struct {
	t      *testing.T
	server *simulation.Server
	cache  *simulation.Cache
	r      *Reconciler
	c      *Checker
	clock  *testingclock.FakePassiveClock
}

// newChecked has identities of namespace infra with the given names, each with its Secret, and asks an endpoint.
func newChecked(t *testing.T, verifier *Verifier, identities ...string) *checkedWorld {
	t.Helper()
	w := &checkedWorld{t: t, server: simulation.NewServer(simScheme()), clock: testingclock.NewFakePassiveClock(time.Now())}
	w.cache = w.server.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	for _, index := range indexes() {
		w.cache.Index(index.Object, index.Name, index.Keys)
	}
	resolver := &Resolver{Cached: Readers{w.cache, w.cache}, Live: w.server.Client(nil), Scope: Scope{Policy: simPolicy}}
	w.c = &Checker{Verifier: verifier, Resolver: resolver, Clock: w.clock}
	resolver.Checker = w.c
	w.r = &Reconciler{
		Client: w.server.Client(nil), Recorder: events.NewFakeRecorder(1000), Resolver: resolver, Checker: w.c, Clock: w.clock,
	}
	if err := w.r.complete(); err != nil {
		t.Fatal(err)
	}
	w.c.limit, w.c.events = rate.NewLimiter(rate.Inf, 1), make(chan event.GenericEvent, 1000)
	for _, name := range identities {
		w.server.Put(identitytest.Identity("infra", func(i *identityv1.OCIClusterIdentity) {
			i.Name, i.Spec.PrincipalSecret.Name = name, name
		}))
		w.server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}, Data: identitytest.Data()})
	}
	w.sync()
	return w
}

// sync has the cache receive everything.
func (w *checkedWorld) sync() {
	for _, kind := range w.cache.Behind() {
		for {
			if _, ok := w.cache.Next(kind); !ok {
				break
			}
		}
	}
}

func (w *checkedWorld) cluster(name, identity, compartment string) {
	ref := identitytest.Ref(identity)
	ref.Namespace = "infra"
	w.server.Put(&infrav1.OCICluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
		Spec:       infrav1.ClusterSpec{IdentityRef: ref, CompartmentID: compartment},
	})
	w.sync()
}

// run reconciles an identity, and returns its condition.
func (w *checkedWorld) run(identity string) string {
	w.t.Helper()
	w.sync()
	key := types.NamespacedName{Namespace: "infra", Name: identity}
	if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	w.sync()
	found := &identityv1.OCIClusterIdentity{}
	if err := w.cache.Get(w.t.Context(), key, found); err != nil {
		w.t.Fatal(err)
	}
	condition := found.Condition(infrav1.IdentityVerifiedCondition)
	if condition == nil {
		return "none"
	}
	return string(condition.Status) + " " + condition.Reason
}

// ask asks all questions that wait.
func (w *checkedWorld) ask() {
	for len(w.c.queue) > 0 {
		w.c.next(w.t.Context())
	}
}

// permits returns what an import is told of a cluster: a reason, or a note.
func (w *checkedWorld) permits(name string) string {
	w.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "prod"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: identityv1.GroupName, Kind: "OCICluster", Name: name}
	note, err := w.r.Resolver.Permits(w.t.Context(), cluster)
	if problem, ok := errors.AsType[*outcome.Problem](err); ok {
		return fmt.Sprintf("%s %s", problem.Kind, problem.Reason)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return note
}

func newVerifierFor(t *testing.T, server *identityAPI) *Verifier {
	t.Helper()
	verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL, TrustedCAs: server.trust(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

func TestAThousandClustersWithOneSecretAskOnce(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	server.compartments = map[string]string{aCompartment: identitytest.Tenancy}
	w := newChecked(t, newVerifierFor(t, server), "one")
	for i := range 1000 {
		w.cluster(fmt.Sprintf("c-%d", i), "one", aCompartment)
	}
	if got := w.run("one"); got != "Unknown VerificationPending" {
		t.Errorf("before OCI was asked: got %s", got)
	}
	if got := w.permits("c-7"); got != "Wait VerificationPending" {
		t.Errorf("a new import: got %s", got)
	}
	told := 0
	w.r.Notify = func(string, types.NamespacedName) { told++ }
	w.ask()
	if got := w.run("one"); got != "True Verified" || w.permits("c-7") != "" || told != 1000 {
		t.Errorf("got %s, %q, %d clusters are told", got, w.permits("c-7"), told)
	}
	w.run("one")
	w.ask()
	if got := server.asked.Load(); got != 1 || told != 1000 {
		t.Errorf("OCI was asked %d times, and clusters were told %d times", got, told)
	}
	// A spec that leads to the same question asks nothing, a Secret in another version asks once.
	w.server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "one"}, Data: identitytest.Data()})
	w.run("one")
	w.ask()
	if got := server.asked.Load(); got != 2 || w.run("one") != "True Verified" {
		t.Errorf("after a new version of the Secret: OCI was asked %d times", got)
	}
}

func TestCompartmentsOfOneSecretAreBounded(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	w := newChecked(t, newVerifierFor(t, server), "one", "two")
	for i := range 1000 {
		w.cluster(fmt.Sprintf("c-%d", i), "one", fmt.Sprintf("ocid1.compartment.oc1..%d", i))
	}
	w.cluster("other", "two", aCompartment)
	w.run("one")
	w.run("two")
	w.ask()
	if got := server.asked.Load(); got != maxTargets+1 {
		t.Errorf("OCI was asked %d times", got)
	}
	refused, noted := 0, 0
	for i := range 1000 {
		switch got := w.permits(fmt.Sprintf("c-%d", i)); {
		case got == "Stall CompartmentNotVisible":
			refused++
		case strings.Contains(got, "TooManyCompartments"):
			noted++
		default:
			t.Fatalf("c-%d: got %q", i, got)
		}
	}
	if refused != maxTargets || noted != 1000-maxTargets {
		t.Errorf("%d are refused, %d are not known", refused, noted)
	}
	if got := w.run("one"); got != "False CompartmentNotVisible" {
		t.Errorf("got %s", got)
	}
}

// An OCI that hangs costs one timeout for each Secret, and holds up no import.
func TestAnOCIThatHangsHoldsUpNothing(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	trust := &identityAPI{Server: server}
	verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL, TrustedCAs: trust.trust(), Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w := newChecked(t, verifier, "one", "two")
	for i := range 10 {
		w.cluster(fmt.Sprintf("c-%d", i), "one", fmt.Sprintf("ocid1.compartment.oc1..%d", i))
	}
	w.run("one")
	w.ask()
	if got := asked.Load(); got != 1 {
		t.Errorf("OCI was asked %d times", got)
	}
	if got := w.permits("c-3"); !strings.Contains(got, "OCIUnreachable") {
		t.Errorf("the import: got %q", got)
	}
	if got := w.run("one"); got != "Unknown OCIUnreachable" {
		t.Errorf("got %s", got)
	}

	// A question that waits too long is not asked.
	w.cluster("late", "two", aCompartment)
	w.run("two")
	w.clock.SetTime(w.clock.Now().Add(patience + time.Second))
	w.ask()
	if got := asked.Load(); got != 1 || !strings.Contains(w.permits("late"), "VerificationPending") {
		t.Errorf("got %q after %d questions", w.permits("late"), got)
	}
}

func TestAnOutageTakesNothingAway(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	server.compartments = map[string]string{aCompartment: identitytest.Tenancy}
	w := newChecked(t, newVerifierFor(t, server), "one", "two")
	w.cluster("good", "one", aCompartment)
	w.cluster("bad", "two", parentOf)
	for _, name := range []string{"one", "two"} {
		w.run(name)
	}
	w.ask()
	server.code.Store(http.StatusInternalServerError)
	w.clock.SetTime(w.clock.Now().Add(2 * acceptedFor))
	w.run("one")
	w.run("two")
	w.ask()
	if one, two := w.run("one"), w.run("two"); one != "True Verified" || two != "False CompartmentNotVisible" {
		t.Errorf("got %s and %s", one, two)
	}
	if w.permits("good") != "" || w.permits("bad") != "Stall CompartmentNotVisible" || server.asked.Load() != 4 {
		t.Errorf("got %q, %q after %d questions", w.permits("good"), w.permits("bad"), server.asked.Load())
	}

	// A new process begins with nothing, and changes no condition until OCI has answered.
	fresh := newChecked(t, newVerifierFor(t, server))
	fresh.server, fresh.cache = w.server, w.cache
	fresh.r.Client, fresh.c.Resolver.Cached, fresh.c.Resolver.Live = w.server.Client(nil), Readers{w.cache, w.cache}, w.server.Client(nil)
	w.server.Writes = nil
	if got := fresh.run("one"); got != "True Verified" || len(w.server.Writes) != 0 {
		t.Errorf("after a restart: got %s and %d writes", got, len(w.server.Writes))
	}
}

// The text of an outage has ports and addresses that differ each time. It is written once.
func TestAnOutageIsReportedOnce(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	w := newChecked(t, newVerifierFor(t, server), "one")
	w.cluster("new", "one", aCompartment)
	w.run("one")
	for n, found := range []finding{
		unknown(infrav1.VerificationPendingReason, "late"), unknown(infrav1.OCIUnreachableReason, "port 1"),
		unknown(infrav1.OCIUnreachableReason, "port 2"), unknown(infrav1.VerificationPendingReason, "late"),
	} {
		for to := range w.c.targets {
			w.c.note(to, found)
		}
		w.server.Writes = nil
		if got, writes := w.run("one"), len(w.server.Writes); n > 0 && got != "Unknown OCIUnreachable" || (writes > 0) != (n < 2) && n > 0 {
			t.Errorf("after %s: got %s with %d writes", found.message, got, writes)
		}
	}
}

// What has changed since a question was decided on is not remembered as its answer.
func TestAnswersBelongToWhatWasAsked(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	w := newChecked(t, newVerifierFor(t, server), "one", "two")
	w.cluster("good", "one", aCompartment)
	w.run("one")
	w.server.Put(identitytest.Identity("infra", func(i *identityv1.OCIClusterIdentity) {
		i.Name, i.Spec.PrincipalSecret.Name = "one", "two"
	}))
	w.sync()
	w.c.next(t.Context())
	for to, is := range w.c.targets {
		if is.finding != (finding{}) {
			t.Errorf("%+v has %+v", to, is.finding)
		}
	}
	w.run("one")
	for to := range w.c.targets {
		if to.secret.Name != "two" {
			t.Errorf("%+v is still asked about", to)
		}
	}
	// The last cluster takes what is known along.
	w.server.Remove(simulation.Key{Kind: clusterGK, NamespacedName: types.NamespacedName{Namespace: "a", Name: "good"}})
	if got := w.run("one"); got != "Unknown NoCluster" || len(w.c.targets) != 0 || len(w.c.wanted) != 0 || len(w.c.count) != 0 {
		t.Errorf("got %s with %d targets", got, len(w.c.targets))
	}
}

// transport is a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Few questions are asked at the same time, and some in a second, also just after a start.
func TestQuestionsAreFewAtTheSameTime(t *testing.T) {
	identitytest.One()
	synctest.Test(t, func(t *testing.T) {
		release, asked := make(chan struct{}), 0
		var mu sync.Mutex
		verifier, err := NewVerifier(VerifierOptions{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		verifier.client.Transport = transport(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			asked++
			mu.Unlock()
			<-release
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		})
		w := newChecked(t, verifier, "one")
		for i := range 20 {
			w.cluster(fmt.Sprintf("c-%d", i), "one", fmt.Sprintf("ocid1.compartment.oc1..%d", i))
		}
		if err := w.c.complete(); err != nil {
			t.Fatal(err)
		}
		w.c.events = make(chan event.GenericEvent, 1000)
		w.run("one")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.c.Start(ctx) }()
		<-time.After(10 * time.Second) // of the bubble
		synctest.Wait()
		if asked != checkers {
			t.Errorf("%d questions are asked at the same time", asked)
		}
		began := time.Now()
		close(release)
		for range 20 {
			<-w.c.events
		}
		if took := time.Since(began); asked != 20 || took < 3*time.Second || took > 5*time.Second {
			t.Errorf("%d questions took %s, want %d in a second", asked, took, perSecond)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
