package translation

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	identityGK = schema.GroupKind{Group: identityv1.GroupName, Kind: identityv1.OCIClusterIdentityKind}
	secretGK   = schema.GroupKind{Kind: "Secret"}
	// Few names, so that things meet.
	simNames  = []string{"cc-1", "cc-2"}
	simPolicy = Policy{Namespace: "oci", AllowedNamespaces: []string{"tenant"}}
)

// world is a simulated API server, one controller, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t       *rapid.T
	ctx     context.Context //nolint:containedctx // it is that of the test, as t is
	server  *simulation.Server
	process *simulation.Process
	control *Reconciler
	printed strings.Builder
	// trouble is what reads from the API server fail with.
	trouble error
	// narrow is whether the process does not see the tenant's clusters.
	narrow bool
	// requests counts what is asked of the API server.
	requests int
}

func newWorld(ctx context.Context, t *rapid.T) *world {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, infrav1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{Schedule: simulation.Schedule{T: t}, t: t, ctx: ctx, server: simulation.NewServer(s)}
	w.start()
	return w
}

// start begins a new process: it knows what is there now, and nothing of what its predecessor did.
func (w *world) start() {
	cache := w.server.NewCache(identityGK, secretGK)
	live := w.server.Client(w.fault)
	scope := shard.Scope{}
	if w.narrow {
		var err error
		if scope, err = shard.New(nil, []string{"tenant"}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.control = &Reconciler{
		Client: live, Live: live, Objects: cache, Metadata: cache, Recorder: recorder{w}, Policy: simPolicy, Scope: scope,
		Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)),
	}
	if err := w.control.complete(); err != nil {
		w.t.Fatal(err)
	}
	w.process = &simulation.Process{Cache: cache, Reconciler: w.control, Watches: []simulation.Watch{
		{Kind: secretGK, Metadata: true, Requests: w.control.requestOfSecret},
		{Kind: identityGK, Requests: w.control.requestsOfIdentity},
	}}
	w.process.Start(w.ctx)
}

// fault disturbs requests as the schedule has it.
func (w *world) fault(verb string, key simulation.Key, answered bool) error {
	if !answered {
		w.requests++
	}
	switch verb {
	case "list":
		w.t.Fatalf("%s are listed", key.Kind)
	case "get":
		return w.trouble
	}
	return w.Befall(answered)
}

type recorder struct{ w *world }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	fmt.Fprintln(&r.w.printed, kind, reason, action, fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = recorder{}

// act does one thing that can happen.
func (w *world) act() {
	pick := w.Pick
	name := pick("name", "cc-1", "cc-1", "cc-1", "cc-2")
	switch pick("what", "credential", "credential", "drop", "secret", "identity", "use", "use", "allow", "deliver", "deliver",
		"deliver", "work", "work", "work", "work", "restart", "fault", "outage") {
	case "credential":
		w.actCredential(name, pick)
	case "drop":
		w.server.Remove(keyIn(secretGK, CredentialNamespace, name))
	case "secret":
		w.actSecret(name, pick)
	case "identity":
		w.actIdentity(name, pick)
	case "use":
		w.use(name, map[string]corev1.ConditionStatus{
			"used": corev1.ConditionTrue, "unused": corev1.ConditionFalse, "unknown": corev1.ConditionUnknown,
		}[pick("use", "used", "unused", "unused", "unknown")])
	case "allow":
		w.allow(name, pick("allowed", "true", "false"))
	case "deliver":
		w.Deliver(w.ctx, w.process)
	case "work":
		w.work(func(n int) int { return w.Index("request", n) })
	case "restart":
		w.narrow = pick("scope", "all", "narrow") == "narrow"
		w.start()
	case "fault":
		w.Disturb()
	case "outage":
		w.trouble = nil
		if pick("outage", "begins", "ends", "ends") == "begins" {
			w.trouble = simulation.ErrOutage
		}
	}
}

func keyIn(kind schema.GroupKind, namespace, name string) simulation.Key {
	return simulation.Key{Kind: kind, NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (w *world) credential(name string) *corev1.Secret {
	found, _ := w.server.Get(keyIn(secretGK, CredentialNamespace, name)).(*corev1.Secret)
	return found
}

func (w *world) secret(name string) *corev1.Secret {
	found, _ := w.server.Get(keyIn(secretGK, "oci", name)).(*corev1.Secret)
	return found
}

func (w *world) identity(name string) *identityv1.OCIClusterIdentity {
	found, _ := w.server.Get(keyIn(identityGK, "oci", name)).(*identityv1.OCIClusterIdentity)
	return found
}

// putCredential writes one as Rancher does: it leaves annotations of others alone.
func (w *world) putCredential(name string, annotations map[string]string, data map[string][]byte) {
	after := w.credential(name)
	if after == nil {
		after = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: CredentialNamespace, Name: name}}
	}
	for _, key := range []string{driverAnnotation, infrav1.RegionAnnotation} {
		delete(after.Annotations, key)
	}
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	maps.Copy(after.Annotations, annotations)
	after.Data = data
	w.server.Put(after)
}

func (w *world) actCredential(name string, pick func(string, ...string) string) {
	annotations := map[string]string{}
	if driver := pick("driver", "oracle", "oracle", "oci", "", "aws"); driver != "" {
		annotations[driverAnnotation] = driver
	}
	if region := pick("region", "", "us-ashburn-1", "evil/#"); region != "" {
		annotations[infrav1.RegionAnnotation] = region
	}
	data := credentialData(theKeys().one)
	switch pick("data", "good", "good", "rotated", "missing", "mismatch", "other") {
	case "rotated":
		data = credentialData(theKeys().other)
	case "missing":
		delete(data, "ocicredentialConfig-userId")
	case "mismatch":
		data["ocicredentialConfig-privateKeyContents"] = []byte(pemOf(theKeys().other))
	case "other":
		data = map[string][]byte{"amazonec2credentialConfig-accessKey": []byte("AKIAIOSFODNN7EXAMPLE")}
	}
	w.putCredential(name, annotations, data)
	if held := w.credential(name); pick("held", "no", "no", "no", "yes") == "yes" {
		held.Finalizers = []string{"rancher.example/held"}
		w.server.Put(held)
	}
}

// actSecret writes what has the name of a principal Secret.
func (w *world) actSecret(name string, pick func(string, ...string) string) {
	found := w.secret(name)
	switch what := pick("secret", "remove", "tamper", "disown", "foreign"); {
	case what == "foreign" && found == nil:
		w.server.Put(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "oci", Name: name}, Data: map[string][]byte{"theirs": []byte("theirs")},
		})
	case found == nil:
	case what == "remove":
		w.server.Remove(keyIn(secretGK, "oci", name))
	case what == "tamper":
		found.Data = map[string][]byte{"tenancy": []byte("another"), "more": []byte("x")}
		w.server.Put(found)
	case what == "disown":
		found.Labels = nil
		w.server.Put(found)
	}
}

// actIdentity writes what has the name of an identity.
func (w *world) actIdentity(name string, pick func(string, ...string) string) {
	found := w.identity(name)
	theirs := &identityv1.OCIClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "oci", Name: name},
		Spec: identityv1.OCIClusterIdentitySpec{
			Type:              identityv1.UserPrincipal,
			PrincipalSecret:   corev1.SecretReference{Namespace: "oci", Name: pick("names", simNames...)},
			AllowedNamespaces: &identityv1.AllowedNamespaces{NamespaceList: []string{"theirs"}},
		},
	}
	switch what := pick("identity", "remove", "open", "null", "foreign"); {
	case what == "foreign" && found == nil:
		w.server.Put(theirs)
	case found == nil:
	case what == "remove":
		w.server.Remove(keyIn(identityGK, "oci", name))
	case what == "open" && found.Labels != nil:
		found.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{}
		w.server.Put(found)
	case what == "null" && found.Labels != nil:
		found.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{NullList: true}
		w.server.Put(found)
	}
}

// allow is what somebody does who lets an identity go.
func (w *world) allow(name, value string) {
	if found := w.identity(name); found != nil {
		found.Annotations = map[string]string{"archelon.io/allow-deletion": value}
		w.server.Put(found)
	}
}

// use is what the controller of identities publishes.
func (w *world) use(name string, status corev1.ConditionStatus) {
	found := w.identity(name)
	if found == nil {
		return
	}
	inUse := found.Condition(identityv1.InUseCondition)
	if inUse == nil {
		found.Status.Conditions = append(found.Status.Conditions, identityv1.Condition{Type: identityv1.InUseCondition})
		inUse = found.Condition(identityv1.InUseCondition)
	}
	if inUse.Status != status {
		inUse.Status = status
		w.server.Put(found)
	}
}

// work has the controller work on one request, and looks at what it did.
func (w *world) work(choose func(int) int) {
	if w.process.Queued() == 0 {
		return
	}
	before := w.snapshot()
	lives, err := w.process.Work(w.ctx, choose(w.process.Queued()))
	if err != nil {
		fmt.Fprintln(&w.printed, err)
	}
	w.checkStep(before)
	if !lives {
		w.start()
	}
}

// settle delivers and works until nothing is left, and looks at each step.
func (w *world) settle() {
	for range 2000 {
		switch behind := w.process.Cache.Behind(); {
		case len(behind) > 0:
			w.process.Deliver(w.ctx, behind[0])
		case w.process.Queued() > 0:
			w.work(func(int) int { return 0 })
		default:
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}
