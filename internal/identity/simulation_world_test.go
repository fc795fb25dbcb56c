package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	identityGK  = schema.GroupKind{Group: identityv1.GroupName, Kind: identityv1.OCIClusterIdentityKind}
	clusterGK   = schema.GroupKind{Group: identityv1.GroupName, Kind: infrav1.OCIClusterKind}
	managedGK   = schema.GroupKind{Group: identityv1.GroupName, Kind: infrav1.OCIManagedClusterKind}
	namespaceGK = schema.GroupKind{Kind: "Namespace"}
	secretGK    = schema.GroupKind{Kind: "Secret"}
)

// What the others write in a simulated world: few names, so that things meet.
var (
	simNamespaces = []string{"a", "b", "infra"}
	simPolicy     = oci.Policy{SecretNamespaces: []string{"a", "infra"}, TrustedNamespaces: []string{"infra"}}
	simShapes     = []string{
		`null`, `{}`, `{"list":null}`, `{"list":[]}`, `{"list":["a"]}`, `{"list":["a","b"]}`, `{"selector":{}}`,
		`{"selector":{"matchLabels":{"team":"x"}}}`, `{"list":["b"],"selector":{"matchLabels":{"team":"x"}}}`,
		`{"selector":{"matchExpressions":[{"key":"team","operator":"Is"}]}}`,
		`{"selector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}`,
	}
)

// world is a simulated API server, one controller, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t       *rapid.T
	ctx     context.Context //nolint:containedctx // it is that of the test, as t is
	server  *simulation.Server
	process *simulation.Process
	control *Reconciler
	clock   *clocktesting.FakePassiveClock
	printed strings.Builder
	// told is the last verdict of which somebody was told, by cluster.
	told map[userID]bool
	// foreign are the identities that have a condition of somebody else.
	foreign map[types.UID]bool
	// principals is what another controller with the same policy asks for principals.
	principals *oci.Resolver
	// trouble is what reads from the API server fail with.
	trouble error
	// scope is where the process works. Others work elsewhere.
	scope shard.Scope
	// requests counts what is asked of the API server.
	requests int
}

func simScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, infrav1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newWorld(ctx context.Context, t *rapid.T) *world {
	w := &world{
		Schedule: simulation.Schedule{T: t}, t: t, ctx: ctx, server: simulation.NewServer(simScheme()), told: map[userID]bool{}, foreign: map[types.UID]bool{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)),
	}
	if rapid.Bool().Draw(t, "furnished") {
		w.furnish()
	}
	w.drawScope()
	w.start()
	return w
}

// furnish begins with something that works, which random writes come to late. One of the identities is used from
// another namespace than its own, which the process does not always see.
func (w *world) furnish() {
	team := map[string]string{"team": "x"}
	for _, from := range []struct{ cluster, identity, name string }{
		{"a", "a", "one"}, {"infra", "infra", "one"}, {"b", "infra", "two"},
	} {
		meta, ref := metav1.ObjectMeta{Namespace: from.identity, Name: from.name}, identitytest.Ref(from.name)
		ref.Namespace = from.identity
		w.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: from.cluster, Labels: team}})
		w.server.Put(&infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: from.cluster, Name: from.name}, Spec: infrav1.ClusterSpec{IdentityRef: ref},
		})
		w.server.Put(&corev1.Secret{ObjectMeta: meta, Data: identitytest.Data()})
		w.server.Put(&identityv1.OCIClusterIdentity{
			ObjectMeta: meta,
			Spec: identityv1.OCIClusterIdentitySpec{
				Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: from.identity, Name: from.name},
				AllowedNamespaces: &identityv1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: team}},
			},
		})
	}
}

// drawScope has the next process work in other namespaces, as an upgrade does.
func (w *world) drawScope() {
	text := rapid.SampledFrom([]string{"*", "*", "+a", "+a,infra", "-b"}).Draw(w.t, "scope")
	var err error
	if w.scope, err = shard.Decode(text); err != nil {
		w.t.Fatal(err)
	}
}

// receive limits a cache to what a process receives in its scope.
func (w *world) receive(cache *simulation.Cache, scope Scope) {
	for kind, receives := range map[schema.GroupKind]func(client.Object) bool{
		clusterGK:   func(object client.Object) bool { return w.scope.Owns(object.GetNamespace()) },
		managedGK:   func(object client.Object) bool { return w.scope.Owns(object.GetNamespace()) },
		namespaceGK: func(object client.Object) bool { return w.scope.Owns(object.GetName()) },
		identityGK:  func(object client.Object) bool { return scope.readable(object.GetNamespace()) },
	} {
		cache.Keep(kind, func(object client.Object) client.Object {
			if receives(object) {
				return object
			}
			return nil
		})
	}
}

// start begins a new process: it knows what is there now, and nothing of what its predecessor did.
func (w *world) start() {
	cache := w.server.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	for _, index := range indexes() {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	scope := Scope{Shard: w.scope, Policy: simPolicy}
	w.receive(cache, scope)
	live := w.server.Client(w.fault)
	w.control = &Reconciler{
		Client: live, Recorder: recorder{w},
		Resolver: &Resolver{
			Cached: Readers{Objects: cache, Metadata: cache}, Live: live, Scope: scope,
		},
		Notify: func(kind string, name types.NamespacedName) { w.told[userID{kind, name.Namespace, name.Name}] = true },
		Clock:  w.clock,
	}
	if err := w.control.complete(); err != nil {
		w.t.Fatal(err)
	}
	w.principals = oci.NewResolver(oci.LiveReaders(live), oci.Options{
		Policy: simPolicy, Readable: scope.readable, Providers: oci.Providers{Process: somebody, Instance: somebody},
	})
	w.process = &simulation.Process{Cache: cache, Reconciler: w.control, Watches: watchesOf(w.control)}
	w.process.Start(w.ctx)
}

// watchesOf returns the watches that SetupWithManager builds.
func watchesOf(r *Reconciler) []simulation.Watch {
	var watches []simulation.Watch
	for _, watch := range r.watches() {
		kind := clusterGK
		switch object := watch.Object.(type) {
		case *identityv1.OCIClusterIdentity:
			kind = identityGK
		case *infrav1.OCIManagedCluster:
			kind = managedGK
		case *metav1.PartialObjectMetadata:
			kind = object.GroupVersionKind().GroupKind()
		}
		watches = append(
			watches,
			simulation.Watch{Kind: kind, Metadata: watch.Own, Requests: watch.Requests, Admits: cmp.Or(watch.Admits, predicate.Predicate(predicate.Funcs{}))},
		)
	}
	return watches
}

// fault disturbs requests as the schedule has it.
func (w *world) fault(verb string, key simulation.Key, answered bool) error {
	if !answered {
		w.requests++
	}
	if key.Kind == secretGK && verb != "get" {
		w.t.Fatalf("Secrets are read by %s", verb)
	}
	if verb != "patch" {
		return w.trouble
	}
	return w.Befall(answered)
}

// somebody is a principal that no Secret holds.
func somebody() (common.ConfigurationProvider, error) { return &oci.Credential{}, nil }

type recorder struct{ w *world }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	fmt.Fprintln(&r.w.printed, kind, reason, action, fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = recorder{}

// act does one thing that can happen.
func (w *world) act() {
	pick := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(w.t, label) }
	namespace := pick("namespace", []string{"a", "a", "infra", "infra", "b"})
	name := pick("name", []string{"one", "one", "one", "two"})
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	switch pick("what", []string{
		"identity", "secret", "cluster", "cluster", "label", "label", "remove", "foreign", "deliver", "deliver", "deliver",
		"work", "work", "work", "later", "restart", "fault", "outage",
	}) {
	case "identity":
		w.server.Put(&identityv1.OCIClusterIdentity{ObjectMeta: meta, Spec: w.drawSpec(pick), Status: w.statusOf(meta)})
	case "secret":
		w.server.Put(&corev1.Secret{ObjectMeta: meta, Data: w.drawSecret(pick)})
	case "cluster":
		ref := identitytest.Ref(pick("identity", []string{"one", "one", "one", "two"}))
		ref.Namespace = pick("identity namespace", append([]string{""}, simNamespaces...))
		ref.Kind = pick("kind", []string{"OCIClusterIdentity", "OCIClusterIdentity", "OCIClusterIdentity", "Foo"})
		if pick("ref", []string{"yes", "yes", "yes", "no"}) == "no" {
			ref = nil
		}
		if pick("managed", []string{"yes", "no"}) == "yes" {
			w.server.Put(&infrav1.OCIManagedCluster{ObjectMeta: meta, Spec: infrav1.ClusterSpec{IdentityRef: ref}})
		} else {
			w.server.Put(&infrav1.OCICluster{ObjectMeta: meta, Spec: infrav1.ClusterSpec{IdentityRef: ref}})
		}
	case "label":
		w.server.Put(&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name: namespace, Labels: map[string]string{"team": pick("team", []string{"x", "y"})},
			},
		})
	case "foreign":
		w.addForeign(meta)
	case "remove":
		kind := rapid.SampledFrom(
			[]schema.GroupKind{identityGK, clusterGK, managedGK, secretGK, namespaceGK},
		).Draw(w.t, "kind")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if kind == namespaceGK {
			key = types.NamespacedName{Name: namespace}
		}
		w.server.Remove(simulation.Key{Kind: kind, NamespacedName: key})
	case "deliver":
		w.Deliver(w.ctx, w.process)
	case "work":
		w.work()
	case "later":
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.process.Later()
	case "restart":
		w.drawScope()
		w.start()
	case "fault":
		w.Disturb()
	case "outage":
		w.trouble = nil
		if pick("outage", []string{"begins", "ends", "ends"}) == "begins" {
			w.trouble = simulation.ErrOutage
		}
	}
}

// addForeign has somebody else write a condition of their own.
func (w *world) addForeign(meta metav1.ObjectMeta) {
	key := types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}
	identity, ok := w.server.Get(simulation.Key{Kind: identityGK, NamespacedName: key}).(*identityv1.OCIClusterIdentity)
	if !ok || identity.Condition("Foreign") != nil {
		return
	}
	condition := identityv1.Condition{Type: "Foreign", Status: corev1.ConditionTrue}
	identity.Status.Conditions = append(identity.Status.Conditions, condition)
	w.server.Put(identity)
	w.foreign[identity.UID] = true
}

func (w *world) work() {
	if w.process.Queued() == 0 {
		return
	}
	n := w.Index("request", w.process.Queued())
	if lives, err := w.process.Work(w.ctx, n); !lives {
		w.start()
	} else if err != nil {
		fmt.Fprintln(&w.printed, err)
	}
}

// statusOf keeps the status of an identity that others replace: users change specs.
func (w *world) statusOf(meta metav1.ObjectMeta) identityv1.OCIClusterIdentityStatus {
	before, ok := w.server.Get(simulation.Key{
		Kind: identityGK, NamespacedName: types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name},
	}).(*identityv1.OCIClusterIdentity)
	if !ok {
		return identityv1.OCIClusterIdentityStatus{}
	}
	return before.Status
}

func (w *world) drawSpec(pick func(string, []string) string) identityv1.OCIClusterIdentitySpec {
	var allowed *identityv1.AllowedNamespaces
	if err := json.Unmarshal([]byte(pick("allowed", simShapes)), &allowed); err != nil {
		w.t.Fatal(err)
	}
	return identityv1.OCIClusterIdentitySpec{
		Type: identityv1.PrincipalType(
			pick("type", []string{"UserPrincipal", "UserPrincipal", "UserPrincipal", "InstancePrincipal", "Nonsense"}),
		),
		PrincipalSecret: corev1.SecretReference{
			Namespace: pick("secret namespace", simNamespaces), Name: pick("secret", []string{"one", "two"}),
		},
		AllowedNamespaces: allowed,
	}
}

func (w *world) drawSecret(pick func(string, []string) string) map[string][]byte {
	data := identitytest.Data()
	switch pick("data", []string{"good", "good", "rotated", "missing", "mismatch"}) {
	case "rotated":
		data["key"], data["fingerprint"] = identitytest.PKCS1(identitytest.Other()), []byte(identitytest.Fingerprint(&identitytest.Other().PublicKey))
	case "missing":
		delete(data, "key")
	case "mismatch":
		data["key"] = identitytest.PKCS1(identitytest.Other())
	}
	return data
}
