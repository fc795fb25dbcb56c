package baremetal

import (
	"context"
	"fmt"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	claimGK     = schema.GroupKind{Group: "metal3.io", Kind: "HostClaim"}
	hostGK      = schema.GroupKind{Group: "metal3.io", Kind: "BareMetalHost"}
	policyGK    = schema.GroupKind{Group: "metal3.io", Kind: "HostDeployPolicy"}
	namespaceGK = schema.GroupKind{Kind: "Namespace"}
	secretGK    = schema.GroupKind{Kind: "Secret"}
	clusterGK   = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}
	hardwareGK  = schema.GroupKind{Group: "metal3.io", Kind: "HardwareData"}
	simKinds    = []schema.GroupKind{claimGK, hostGK, policyGK, namespaceGK, secretGK, clusterGK, hardwareGK}
)

// world is a simulated API server, two controllers at once, Metal3, users, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t         *rapid.T
	ctx       context.Context //nolint:containedctx // it is that of the test, as t is
	server    *simulation.Server
	processes []*simulation.Process
	clock     *clocktesting.FakePassiveClock
	// before is what is being written.
	before client.Object
	// asked and rebooted count reboots.
	asked, rebooted int
	// race is whether little happens but that controllers overtake each other. working is the one that runs.
	race    bool
	working int
	// writes counts those of the controllers.
	writes int
	// forced are the claims whose finalizer somebody has taken away.
	forced map[types.UID]bool
	// vanished are the claims that are gone without having been deleted: somebody has restored them with another UID.
	vanished map[types.UID]bool
	// had are the claims that have, or had, a host, or say so since they were restored. lost are those that have lost one
	// which they said to be in use, and forged those in which somebody has written that himself.
	had, lost, forged map[types.UID]bool
	// booted is with which data the host of a claim was provisioned last.
	booted map[types.UID]string
	// disks is what Metal3 has left on the disks of hosts.
	disks map[string]disk
}

func simScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(bmov1.GroupVersion, &bmov1.BareMetalHost{}, &bmov1.BareMetalHostList{}, &bmov1.HardwareData{})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, metal3v1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newWorld(ctx context.Context, t *rapid.T) *world {
	w := &world{
		Schedule: simulation.Schedule{T: t}, t: t, ctx: ctx, forced: map[types.UID]bool{}, vanished: map[types.UID]bool{},
		had: map[types.UID]bool{}, lost: map[types.UID]bool{}, forged: map[types.UID]bool{}, booted: map[types.UID]string{},
		disks: map[string]disk{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)),
	}
	w.server = simulation.NewServer(simScheme())
	for _, namespace := range []string{"a", "b", "infra"} {
		w.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{"kubernetes"}}})
	}
	w.race = rapid.Bool().Draw(t, "race")
	if w.race || rapid.Bool().Draw(t, "furnished") {
		for _, name := range []string{"h1", "h2"} {
			w.server.Put(simHost(name, "*"))
		}
		for _, namespace := range []string{"a", "b"} {
			claim := simClaim(namespace, "c1")
			w.draw(claim)
			w.server.Put(claim)
			w.server.Put(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s1"},
				Data:       map[string][]byte{"of": []byte(namespace), "value": []byte("one")},
			})
		}
	}
	w.processes = make([]*simulation.Process, 2)
	for i := range w.processes {
		w.start(i)
	}
	return w
}

func simHost(name, optIn string) *bmov1.BareMetalHost {
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name, Labels: map[string]string{"size": "m"}},
		Spec:       bmov1.BareMetalHostSpec{Online: true},
		Status:     bmov1.BareMetalHostStatus{Provisioning: bmov1.ProvisionStatus{State: bmov1.StateAvailable}},
	}
	if optIn != "" {
		host.Annotations = map[string]string{metal3v1.NamespacesKey: optIn}
	}
	return host
}

func simClaim(namespace, name string) *metal3v1.HostClaim {
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	claim.Spec.Kind = metal3v1.KindBareMetal
	claim.Spec.HostSelector.MatchLabels = map[string]string{"size": "m"}
	return claim
}

// start begins a new process.
func (w *world) start(n int) { w.processes[n] = newProcess(w.ctx, w.t, w.server, w.fault, w.clock) }

// newProcess returns a process of the controller: it knows what is there now, and nothing of what its predecessor did.
func newProcess(
	ctx context.Context, t *rapid.T, server *simulation.Server, fault simulation.Fault, now clock.PassiveClock,
) *simulation.Process {
	cache := server.NewCache(simKinds...)
	for _, index := range append(hostIndexes(), claimIndexes()...) {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	live := server.Client(fault)
	r := &Reconciler{
		Client: live, Recorder: simulation.Silent{}, Clock: now,
		Read: Readers{Claims: []client.Reader{cache}, Objects: cache, Metadata: cache, Live: live},
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	process := &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(live.Scheme(), r)}
	process.Start(ctx)
	return process
}

// objectsOf returns the objects of a kind.
func objectsOf[T client.Object](server *simulation.Server, kind schema.GroupKind) []T {
	var objects []T
	for _, each := range server.Objects(kind) {
		if object, ok := each.(T); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// watchesOf returns the watches that SetupWithManager builds.
func watchesOf(s *runtime.Scheme, r *Reconciler) []simulation.Watch {
	var watches []simulation.Watch
	for _, watch := range r.watches() {
		watches = append(watches, simulation.WatchOf(s, watch.Object, watch.Requests, watch.Admits))
	}
	return watches
}

// fault disturbs writes as the schedule has it, and looks at each of them.
func (w *world) fault(verb string, key simulation.Key, answered bool) error {
	if verb == "get" || verb == "list" {
		return nil
	}
	if w.Faulty == "meanwhile" && !answered {
		w.Faulty = ""
		w.meanwhile()
	}
	if answered {
		w.checkWrite(w.before, w.server.Get(key))
	} else {
		w.before = w.server.Get(key)
		w.writes++
	}
	return w.Befall(answered)
}

// meanwhile has others do something between the reads of a run and its write.
func (w *world) meanwhile() {
	switch w.Pick("meanwhile", "work", "work", "host", "metal3", "claim") {
	case "work":
		working := w.working
		for range rapid.IntRange(1, 4).Draw(w.t, "runs") {
			w.work(1 - working)
		}
		w.working = working
	case "host":
		w.changeHost()
	case "metal3":
		if hosts := w.hosts(); len(hosts) > 0 {
			w.metal3(hosts[w.Index("host", len(hosts))])
		}
	case "claim":
		w.deleteClaim()
	}
}

func (w *world) deleteClaim() {
	w.server.Remove(simulation.Key{Kind: claimGK, NamespacedName: types.NamespacedName{
		Namespace: w.Pick("namespace", "a", "b"), Name: w.Pick("name", "c1", "c2"),
	}})
}

func (w *world) claims() []*metal3v1.HostClaim {
	return objectsOf[*metal3v1.HostClaim](w.server, claimGK)
}

func (w *world) hosts() []*bmov1.BareMetalHost {
	return objectsOf[*bmov1.BareMetalHost](w.server, hostGK)
}

// What can happen, some of it more often.
var (
	racing = []string{
		"deliver", "deliver", "deliver", "work", "work", "work", "work", "fault", "restart", "delete claim", "change host",
	}
	everything = []string{
		"claim", "delete claim", "secret", "secret", "cluster", "hardware", "host", "change host", "change host", "delete host", "policy", "label", "leave", "metal3", "metal3",
		"deliver", "deliver", "deliver", "deliver", "work", "work", "work", "work", "restart", "fault", "fault", "user", "restore", "administer",
	}
)

// act does one thing that can happen.
func (w *world) act() {
	what := everything
	if w.race {
		what = racing
	}
	switch w.Pick("what", what...) {
	case "claim":
		claim := simClaim(w.Pick("namespace", "a", "b"), w.Pick("name", "c1", "c2"))
		if w.server.Get(w.server.KeyOf(claim)) == nil && w.namespace(claim.Namespace).GetDeletionTimestamp() == nil {
			claim.Spec.FailureDomain = w.Pick("domain", "", "z")
			w.draw(claim)
			w.server.Put(claim)
		}
	case "delete claim":
		w.deleteClaim()
	case "user":
		w.user()
	case "restore":
		w.restore()
	case "administer":
		w.administer("adopt", "release", "wrong")
	case "secret":
		w.changeSecret()
	case "cluster":
		w.server.Put(&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cluster"},
			Spec:       clusterv1.ClusterSpec{Paused: new(w.Pick("paused", "yes", "no", "no") == "yes")},
		})
	case "hardware":
		w.server.Put(&bmov1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: w.Pick("host", "h1", "h2", "h3")}})
	case "host":
		host := simHost(w.Pick("host", "h1", "h2", "h3"), w.Pick("opt-in", "*", "*", "a", "b", ""))
		if w.server.Get(w.server.KeyOf(host)) == nil {
			w.server.Put(host)
		}
	case "change host":
		w.changeHost()
	case "delete host":
		name := w.Pick("host", "h1", "h2", "h3")
		w.loses(name)
		delete(w.disks, name)
		w.server.Remove(simulation.Key{Kind: hostGK, NamespacedName: types.NamespacedName{
			Namespace: "infra", Name: name,
		}})
	case "policy":
		policy := &metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "p"}}
		if w.Pick("policy", "put", "remove") == "remove" {
			w.server.Remove(w.server.KeyOf(policy))
			return
		}
		policy.Generation = int64(w.writes) + int64(len(w.server.Writes)) + 1
		policy.Spec.AllowKeptDisks = w.Pick("kept disks", "yes", "no") == "yes"
		policy.Spec.HostClaimNamespaces = &metal3v1.HostClaimNamespaces{NameMatches: w.Pick("matches", ".*", "a", "[")}
		if w.Pick("labels", "yes", "no") == "yes" {
			policy.Spec.HostClaimNamespaces.HasLabels = []metal3v1.NameValuePair{{Name: "env", Value: "prod"}}
		}
		w.server.Put(policy)
	case "label":
		namespace := w.namespace(w.Pick("namespace", "a", "b"))
		namespace.SetLabels(map[string]string{"env": w.Pick("env", "prod", "dev")})
		w.server.Put(namespace)
	case "leave":
		if w.Pick("leaves", "no", "no", "yes") == "yes" {
			w.leave(w.Pick("namespace", "a", "b"))
		}
	case "metal3":
		if hosts := w.hosts(); len(hosts) > 0 {
			w.metal3(hosts[w.Index("host", len(hosts))])
		}
	case "deliver":
		w.Deliver(w.ctx, w.processes[w.Index("process", 2)])
	case "work":
		w.work(w.Index("process", 2))
	case "restart":
		w.start(w.Index("process", 2))
	case "fault":
		w.Disturb("meanwhile", "meanwhile")
	}
}

func (w *world) namespace(name string) client.Object {
	return w.server.Get(simulation.Key{Kind: namespaceGK, NamespacedName: types.NamespacedName{Name: name}})
}

// leave has a namespace be deleted, and all claims with it. Its tenant may have paused them before.
func (w *world) leave(name string) {
	pauses := w.Pick("paused", "yes", "no") == "yes"
	w.server.Remove(w.server.KeyOf(w.namespace(name)))
	for _, claim := range w.claims() {
		if claim.Namespace == name {
			if pauses {
				claim.Annotations = hostclaim.Set(claim.Annotations, clusterv1.PausedAnnotation, "yes")
				w.server.Put(claim)
			}
			w.server.Remove(w.server.KeyOf(claim))
		}
	}
}

// draw draws what a claim asks for.
func (w *world) draw(claim *metal3v1.HostClaim) {
	claim.Generation++
	claim.Spec.Online = new(w.Pick("online", "yes", "no") == "yes")
	claim.Spec.Image, claim.Spec.UserData, claim.Spec.MetaData = nil, nil, nil
	if name := w.Pick("user data", "", "s1", "s2"); name != "" {
		claim.Spec.UserData = &corev1.SecretReference{Name: name, Namespace: w.Pick("of", "", "", "", claim.Namespace, "infra")}
	}
	if name := w.Pick("metadata", "", "", "s1", "s2"); name != "" {
		claim.Spec.MetaData = &corev1.SecretReference{Name: name}
	}
	claim.Spec.AutomatedCleaningMode = w.Pick("cleaning", "", "disabled", "disabled", "metadata")
	if w.Pick("of cluster", "yes", "no") == "yes" {
		claim.Labels = hostclaim.Set(claim.Labels, clusterv1.ClusterNameLabel, "cluster")
	}
	if url := w.Pick("image", "", "http://one", "http://two"); url != "" {
		claim.Spec.Image = &metal3v1.Image{URL: url, Checksum: "x"}
	}
}

// changeSecret changes a Secret of a tenant, or one that has the name of a copy and is none.
func (w *world) changeSecret() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Pick("namespace", "a", "b"), Name: w.Pick("secret", "s1", "s2")}}
	if w.Pick("foreign", "yes", "no", "no", "no", "no") == "yes" {
		secret.Namespace, secret.Name = "infra", "h1-hc-metadata"
		if found := w.server.Get(w.server.KeyOf(secret)); found != nil && found.GetLabels()[metal3v1.ClaimUIDLabel] != "" {
			return
		}
	}
	if w.Pick("does", "write", "write", "remove") == "remove" {
		w.server.Remove(w.server.KeyOf(secret))
		return
	}
	secret.Data = map[string][]byte{"of": []byte(secret.Namespace), "value": []byte(w.Pick("value", "one", "two"))}
	w.server.Put(secret)
}

// user changes a claim.
func (w *world) user() {
	claims := w.claims()
	if len(claims) == 0 {
		return
	}
	claim := claims[w.Index("claim", len(claims))]
	switch w.Pick("does", "spec", "spec", "forge", "forge status", "reboot", "hold", "release", "pause", "resume", "resume", "force") {
	case "reboot":
		if _, ok := claim.Annotations["reboot.metal3.io"]; !ok {
			w.asked++
			claim.Annotations = rebootOf(claim.Annotations)
		}
	case "hold":
		claim.Annotations = hostclaim.Set(claim.Annotations, "reboot.metal3.io/hold", "x")
	case "release":
		delete(claim.Annotations, "reboot.metal3.io/hold")
	case "spec":
		w.draw(claim)
	case "forge status":
		// No request writes metadata as well: the host is one that nothing else names.
		w.forged[claim.UID] = true
		if claim.Status.BareMetalHost = nil; w.Pick("forged", "provisioned", "lost") == "provisioned" {
			claim.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "never"}
			meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: "Provisioned", Status: "True", Reason: "Provisioned"})
		} else {
			meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: "Associated", Status: "False", Reason: "HostLost"})
		}
	case "forge":
		w.forged[claim.UID] = true
		claim.Labels = hostclaim.Set(claim.Labels, metal3v1.HostLabel, "infra.h1")
	case "pause":
		claim.Annotations = hostclaim.Set(claim.Annotations, "cluster.x-k8s.io/paused", "yes")
	case "resume":
		delete(claim.Annotations, "cluster.x-k8s.io/paused")
	case "force":
		if claim.DeletionTimestamp == nil {
			return
		}
		claim.Finalizers = nil
		w.forced[claim.UID] = true
	}
	w.server.Put(claim)
}

// restore has a claim go without being deleted. Mostly another one of its name comes, with what it says of itself.
func (w *world) restore() {
	claims := w.claims()
	if len(claims) == 0 {
		return
	}
	claim := claims[w.Index("claim", len(claims))]
	if claim.DeletionTimestamp != nil {
		return
	}
	w.forced[claim.UID], w.vanished[claim.UID] = true, true
	again := claim.DeepCopy()
	again.UID, again.ResourceVersion, again.Status = "", "", metal3v1.HostClaimStatus{}
	if w.Pick("status", "with", "without") == "with" {
		again.Status = claim.Status
	}
	w.server.Vanish(w.server.KeyOf(claim))
	if w.Pick("restored", "yes", "yes", "no") == "yes" {
		w.server.Put(again)
		uid := w.server.Get(w.server.KeyOf(again)).GetUID()
		w.had[uid], w.lost[uid], w.forged[uid] = w.had[claim.UID], w.lost[claim.UID], true
	}
}

// loses takes note of a claim that loses its host: one that said that it is in use gets no other one.
func (w *world) loses(host string) {
	for _, claim := range w.claims() {
		is := claim.Status.BareMetalHost
		if is != nil && is.Name == host && inUse(claim) && had(claim, is) {
			w.lost[claim.UID] = true
		}
	}
}

// administer has an administrator decide on a host that says that it is to be decided on. It reports whether there is
// one.
func (w *world) administer(decisions ...string) bool {
	for _, host := range w.hosts() {
		if host.Annotations[metal3v1.ProblemAnnotation] == "" || host.Spec.ConsumerRef == nil {
			continue
		}
		uid := string(host.Spec.ConsumerRef.UID)
		switch w.Pick("decision", decisions...) {
		case "adopt":
			if host.Annotations[metal3v1.AdoptAnnotation] == uid {
				setOn(host, metal3v1.ReleaseAnnotation, uid) // There is nobody who could.
			}
			setOn(host, metal3v1.AdoptAnnotation, uid)
		case "release":
			setOn(host, metal3v1.ReleaseAnnotation, uid)
		case "wrong":
			setOn(host, metal3v1.AdoptAnnotation, "of-another-claim")
		}
		w.server.Put(host)
		return true
	}
	return false
}

func rebootOf(annotations map[string]string) map[string]string {
	annotations = hostclaim.Set(annotations, "reboot.metal3.io", "x")
	annotations["reboot.metal3.io"] = ""
	return annotations
}

// changeHost does what administrators and others do to hosts.
func (w *world) changeHost() {
	hosts := w.hosts()
	if len(hosts) == 0 {
		return
	}
	host := hosts[w.Index("host", len(hosts))]
	switch w.Pick("change", "opt in", "opt out", "label", "unlabel", "error", "repair", "domain", "machine", "machine leaves") {
	case "opt in":
		host.Annotations = hostclaim.Set(host.Annotations, metal3v1.NamespacesKey, w.Pick("opt-in", "*", "a", "b"))
	case "opt out":
		delete(host.Annotations, metal3v1.NamespacesKey)
	case "label":
		host.Labels = hostclaim.Set(host.Labels, "size", "m")
	case "unlabel":
		host.Labels = hostclaim.Set(host.Labels, "size", "l")
	case "error":
		host.Status.ErrorMessage = "boom"
	case "repair":
		host.Status.ErrorMessage = ""
	case "domain":
		host.Labels = hostclaim.Set(host.Labels, metal3v1.FailureDomainLabel, "z")
	case "machine":
		// Metal3's provider takes free hosts, and steals others where it thinks that they are its own.
		if host.Spec.ConsumerRef == nil || w.Pick("steal", "yes", "no", "no", "no") == "yes" {
			w.loses(host.Name)
			host.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Namespace: "infra", Name: "m"}
			delete(host.Annotations, metal3v1.SavedAnnotation)
			host.Spec.Online, host.Spec.AutomatedCleaningMode = true, "" // And says itself what is cleaned.
			delete(w.disks, host.Name)
		}
	case "machine leaves":
		if ref := host.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" {
			host.Spec.ConsumerRef, host.Spec.Image = nil, nil
		}
	}
	w.server.Put(host)
}

// metal3 does what the baremetal-operator does next with a host. It reports false if that is nothing.
func (w *world) metal3(host *bmov1.BareMetalHost) bool {
	is := &host.Status.Provisioning
	wanted := host.Spec.Image != nil
	_, reboots := host.Annotations["reboot.metal3.io"]
	switch {
	case reboots:
		delete(host.Annotations, "reboot.metal3.io")
		w.rebooted++
	case is.State == bmov1.StateAvailable && wanted && host.Spec.Online:
		w.checkProvisioned(host)
		w.writeDisk(host)
		is.State = bmov1.StateProvisioning
	case is.State == bmov1.StateProvisioning && wanted:
		is.State, is.Image = bmov1.StateProvisioned, *host.Spec.Image.DeepCopy()
	case is.State == bmov1.StateProvisioning,
		is.State == bmov1.StateProvisioned && (!wanted || is.Image.URL != host.Spec.Image.URL):
		w.deprovision(host)
		is.State = bmov1.StateDeprovisioning
	case is.State == bmov1.StateDeprovisioning:
		w.cleanDisk(host)
		is.State, is.Image = bmov1.StateAvailable, bmov1.Image{}
	default:
		return false
	}
	w.server.Put(host)
	return true
}

func (w *world) work(n int) {
	w.working = n
	w.Work(w.ctx, w.processes[n], func() { w.start(n) })
}

func describeHost(host *bmov1.BareMetalHost) string {
	if host == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s, consumer %v, image %v)", host.Name, host.Status.Provisioning.State, host.Spec.ConsumerRef, host.Spec.Image)
}
