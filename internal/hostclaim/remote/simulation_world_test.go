package remote

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	claimGK   = schema.GroupKind{Group: "metal3.io", Kind: "HostClaim"}
	secretGK  = schema.GroupKind{Kind: "Secret"}
	clusterGK = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}

	namespaceGK  = schema.GroupKind{Kind: "Namespace"}
	namespaceKey = simulation.Key{Kind: namespaceGK, NamespacedName: types.NamespacedName{Name: "a"}}
)

// world are two simulated API servers, two controllers at once with their holders of Secrets, what works in the other
// cluster, users of both, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t           *rapid.T
	ctx         context.Context //nolint:containedctx // it is that of the test, as t is
	here, there *simulation.Server
	processes   []*instance
	clock       *clocktesting.FakePassiveClock
	// down is whether the other cluster is silent.
	down bool
	// before is what is being written.
	before client.Object
	writes int
	// left are origins of targets that nobody has to delete any more.
	left map[string]bool
}

// instance is one life of the controllers.
type instance struct {
	w               *world
	claims, secrets *simulation.Process
	there           *simulation.Cache
	used            map[types.NamespacedName]string
}

func simScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, metal3v1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newWorld(ctx context.Context, t *rapid.T) *world {
	w := &world{
		Schedule: simulation.Schedule{T: t}, t: t, ctx: ctx, left: map[string]bool{}, here: simulation.NewServer(simScheme()), there: simulation.NewServer(simScheme()),
		clock: clocktesting.NewFakePassiveClock(now),
	}
	w.kubeconfig("u1")
	w.here.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"kubernetes"}}})
	if rapid.Bool().Draw(t, "furnished") {
		for _, name := range []string{"c1", "c2"} {
			w.here.Put(simClaim(name))
		}
		w.here.Put(simSecret("s1", "one"))
	}
	w.processes = make([]*instance, 2)
	for i := range w.processes {
		w.start(i)
	}
	return w
}

func simClaim(name string) *metal3v1.HostClaim {
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Generation: 1}}
	claim.Spec.Kind, claim.Spec.Credentials = "remote", "remote"
	claim.Spec.Args = map[string]metal3v1.Argument{"real-kind": "baremetal"}
	return claim
}

func simSecret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string][]byte{"value": []byte(value)}}
}

// kubeconfig has the credentials lead to a namespace of the other cluster, or nowhere.
func (w *world) kubeconfig(to string) {
	secret := simSecret("remote", to)
	if found := w.here.Get(w.here.KeyOf(secret)); found != nil {
		secret.Finalizers, secret.DeletionTimestamp = found.GetFinalizers(), found.GetDeletionTimestamp()
	}
	w.here.Put(secret)
}

// start begins new processes: they know what is there now, and nothing of what their predecessors did.
func (w *world) start(n int) {
	i := &instance{w: w, there: w.there.NewCache(claimGK, secretGK), used: map[types.NamespacedName]string{}}
	cache := func() *simulation.Cache {
		c := w.here.NewCache(claimGK, secretGK, clusterGK, namespaceGK)
		for _, index := range indexes() {
			c.Index(index.Object, index.Name, index.Keys)
		}
		return c
	}
	live := w.here.Client(w.fault(w.here))
	of := cache()
	r := &Reconciler{
		Client: live, Recorder: simulation.Silent{}, Clock: w.clock, Remotes: i,
		Read: Readers{Claims: of, Secrets: of, Clusters: of, Namespaces: of, Live: live},
	}
	if err := r.complete(); err != nil {
		w.t.Fatal(err)
	}
	i.claims = &simulation.Process{Cache: of, Reconciler: r, Watches: watchesOf(r.watches())}
	of = cache()
	h := &Holder{Client: live, Read: Readers{Claims: of, Secrets: of}}
	i.secrets = &simulation.Process{Cache: of, Reconciler: h, Watches: watchesOf(h.watches())}
	w.processes[n] = i
	i.claims.Start(w.ctx)
	i.secrets.Start(w.ctx)
}

func watchesOf(all []reconcile.Watch) []simulation.Watch {
	watches := make([]simulation.Watch, len(all))
	for i, watch := range all {
		watches[i] = simulation.WatchOf(simScheme(), watch.Object, watch.Requests, watch.Admits)
	}
	return watches
}

// Use implements Remotes.
func (i *instance) Use(_ context.Context, source types.NamespacedName, origin string, credentials Credentials) (*Remote, error) {
	secret, ok := i.w.here.Get(simulation.Key{Kind: secretGK, NamespacedName: credentials.Secret}).(*corev1.Secret)
	if !ok {
		return nil, refuse(metal3v1.CredentialsMissingReason, "there is none")
	}
	i.used[source] = origin
	to := string(secret.Data["value"])
	switch {
	case to == "bad":
		return nil, refuse(metal3v1.CredentialsInvalidReason, "it is none")
	case i.w.down:
		return nil, refuse(metal3v1.RemoteUnreachableReason, "silence")
	}
	return &Remote{
		Cluster: i.w.there.Client(i.w.fault(i.w.there)), Place: workload.Place{Server: "https://there", Namespace: to}, Release: func(error) {},
	}, nil
}

// Leave implements Remotes.
func (i *instance) Leave(source types.NamespacedName) { delete(i.used, source) }

// hear delivers an event of the other cluster.
func (i *instance) hear(kind schema.GroupKind) bool {
	e, ok := i.there.Next(kind)
	if !ok {
		return false
	}
	for _, object := range []client.Object{e.Before, e.After} {
		if object == nil {
			continue
		}
		for source, origin := range i.used {
			if object.GetLabels()[metal3v1.OriginLabel] == origin {
				i.claims.Wake(ctrl.Request{NamespacedName: source})
			}
		}
	}
	return true
}

// wakeAll is what connections do when the other cluster begins to answer, or ceases to.
func (w *world) wakeAll() {
	for _, i := range w.processes {
		for source := range i.used {
			i.claims.Wake(ctrl.Request{NamespacedName: source})
		}
	}
}

var (
	errSilent = &outcome.Problem{Kind: outcome.KindFail, Reason: archelonv1.WorkloadUnreachableReason, Message: "silence"}
)

// fault disturbs requests to a server as the schedule has it, and looks at each write.
func (w *world) fault(of *simulation.Server) simulation.Fault {
	return func(verb string, key simulation.Key, answered bool) error {
		if of == w.there && w.down && !answered {
			return errSilent
		}
		if verb == "get" || verb == "list" {
			return nil
		}
		if answered {
			if of == w.there {
				w.checkWrite(key, w.before, of.Get(key))
			}
		} else {
			w.before = of.Get(key)
			w.writes++
		}
		return w.Befall(answered)
	}
}

func (w *world) sources() []*metal3v1.HostClaim { return claimsOf(w.here) }
func (w *world) targets() []*metal3v1.HostClaim { return claimsOf(w.there) }

func claimsOf(s *simulation.Server) []*metal3v1.HostClaim {
	var found []*metal3v1.HostClaim
	for _, object := range s.Objects(claimGK) {
		if claim, ok := object.(*metal3v1.HostClaim); ok {
			found = append(found, claim)
		}
	}
	return found
}

// act does one thing that can happen.
func (w *world) act() {
	n := w.Index("process", 2)
	switch w.Pick("what",
		"claim", "delete", "leave", "user", "user", "secret", "secret", "credentials", "silence", "operator", "operator", "operator", "stranger",
		"deliver", "deliver", "deliver", "hear", "hear", "hear", "work", "work", "work", "work", "hold", "restart", "fault", "fault",
	) {
	case "claim":
		if claim := simClaim(w.Pick("name", "c1", "c2")); w.here.Get(w.here.KeyOf(claim)) == nil && !w.leaves() {
			w.draw(claim)
			w.here.Put(claim)
		}
	case "delete":
		w.here.Remove(simulation.Key{Kind: claimGK, NamespacedName: types.NamespacedName{Namespace: "a", Name: w.Pick("name", "c1", "c2")}})
	case "leave":
		if w.Pick("leaves", "no", "no", "no", "yes") == "yes" {
			w.leave()
		}
	case "user":
		w.user()
	case "secret":
		secret := simSecret(w.Pick("secret", "s1", "s2"), w.Pick("value", "one", "two"))
		if w.Pick("does", "write", "write", "remove") == "remove" {
			w.here.Remove(w.here.KeyOf(secret))
		} else {
			w.here.Put(secret)
		}
	case "credentials":
		if to := w.Pick("to", "u1", "u1", "u2", "bad", "none"); to == "none" {
			w.here.Remove(w.here.KeyOf(simSecret("remote", "")))
		} else {
			w.kubeconfig(to)
		}
	case "silence":
		w.down = !w.down
		w.wakeAll()
	case "operator":
		if targets := w.targets(); len(targets) > 0 {
			w.operate(targets[w.Index("target", len(targets))])
		}
	case "stranger":
		w.stranger()
	case "deliver":
		process := []*simulation.Process{w.processes[n].claims, w.processes[n].secrets}[w.Index("controller", 2)]
		w.Deliver(w.ctx, process)
	case "hear":
		w.processes[n].hear([]schema.GroupKind{claimGK, secretGK}[w.Index("kind", 2)])
	case "work":
		w.Work(w.ctx, w.processes[n].claims, func() { w.start(n) })
	case "hold":
		w.Work(w.ctx, w.processes[n].secrets, func() { w.start(n) })
	case "restart":
		w.start(n)
	case "fault":
		w.Disturb()
	}
}

// leave has the namespace be deleted, and all sources with it.
func (w *world) leave() {
	w.here.Remove(namespaceKey)
	for _, source := range w.sources() {
		w.here.Remove(w.here.KeyOf(source))
	}
}

// leaves reports whether the namespace is being deleted.
func (w *world) leaves() bool { return w.here.Get(namespaceKey).GetDeletionTimestamp() != nil }

// draw draws what a source asks for.
func (w *world) draw(claim *metal3v1.HostClaim) {
	claim.Generation++
	claim.Spec.Online = new(w.Pick("online", "yes", "no") == "yes")
	claim.Spec.Image, claim.Spec.UserData = nil, nil
	if name := w.Pick("user data", "", "s1", "s2"); name != "" {
		claim.Spec.UserData = &corev1.SecretReference{Name: name, Namespace: w.Pick("of", "", "", "", "a", "infra")}
	}
	if url := w.Pick("image", "", "http://one", "http://two"); url != "" {
		claim.Spec.Image = &metal3v1.Image{URL: url}
	}
}

// user changes a source.
func (w *world) user() {
	sources := w.sources()
	if len(sources) == 0 {
		return
	}
	claim := sources[w.Index("source", len(sources))]
	switch w.Pick("does", "spec", "spec", "reboot", "pause", "resume", "resume", "abandon", "force") {
	case "spec":
		w.draw(claim)
	case "reboot":
		claim.Annotations = hostclaim.Set(claim.Annotations, "reboot.metal3.io", `{"mode":"hard"}`)
	case "pause":
		claim.Annotations = hostclaim.Set(claim.Annotations, clusterv1.PausedAnnotation, "yes")
	case "resume":
		delete(claim.Annotations, clusterv1.PausedAnnotation)
	case "abandon":
		claim.Annotations = hostclaim.Set(claim.Annotations, metal3v1.AbandonAnnotation, "true")
		w.left[originKept(claim)] = true
	case "force":
		if claim.DeletionTimestamp == nil {
			return
		}
		w.left[originKept(claim)], claim.Finalizers = true, nil
	}
	w.here.Put(claim)
}

// operate does what the controllers of the other cluster do next with a target. It reports false if that is nothing.
func (w *world) operate(target *metal3v1.HostClaim) bool {
	bound := hostclaim.ConditionOf(target, "Associated").Status == "True"
	_, reboots := target.Annotations["reboot.metal3.io"]
	switch {
	case target.DeletionTimestamp != nil:
		target.Finalizers = nil
	case len(target.Finalizers) == 0:
		target.Finalizers = []string{"operator"}
	case reboots:
		delete(target.Annotations, "reboot.metal3.io")
	case !bound:
		meta.SetStatusCondition(&target.Status.Conditions, metav1.Condition{Type: "Associated", Status: "True", Reason: "BareMetalHostAssociated"})
	case target.Status.Ready != (target.Spec.Image != nil):
		w.checkProvisioned(target)
		target.Status.Ready = target.Spec.Image != nil
	default:
		return false
	}
	w.there.Put(target)
	return true
}

// stranger does what others may do in the other cluster.
func (w *world) stranger() {
	switch w.Pick("does", "delete", "edit", "edit", "secret", "foreign") {
	case "secret":
		if secrets := w.there.Objects(secretGK); len(secrets) > 0 {
			w.there.Remove(w.there.KeyOf(secrets[0]))
		}
		return
	case "foreign":
		w.there.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "u1", Name: "foreign"}})
		return
	case "delete":
		if targets := w.targets(); len(targets) > 0 {
			w.there.Remove(w.there.KeyOf(targets[w.Index("target", len(targets))]))
		}
		return
	}
	if targets := w.targets(); len(targets) > 0 {
		target := targets[w.Index("target", len(targets))]
		target.Spec.Online, target.Spec.FailureDomain = nil, "edited"
		w.there.Put(target)
	}
}

func describeClaim(claim *metal3v1.HostClaim) string {
	synced := hostclaim.ConditionOf(claim, "RemoteSynced")
	return fmt.Sprintf("%s/%s (%s %s, deleted %v)", claim.Namespace, claim.Name, synced.Status, synced.Reason, claim.DeletionTimestamp != nil)
}
