package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
	"github.com/archelon-io/archelon/test/standin/capm3"
)

const (
	simNamespace = "a"
	simImage     = "http://image"
)

var (
	machineGK = machineKind().GroupKind()
	claimGK   = schema.GroupKind{Group: "metal3.io", Kind: "HostClaim"}
	hostGK    = schema.GroupKind{Group: "metal3.io", Kind: "BareMetalHost"}
	clusterGK = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}
)

// server is a real one: whose claim has it, what that asks for, and what it runs.
type server struct {
	name     string
	claim    types.UID
	wants    string
	runs     string
	cleaning bool
}

// world is a simulated API server with Metal3Machines, two processes of the controller at once, the provider of Cluster
// API, a controller of claims, users, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	ctx       context.Context //nolint:containedctx // it is that of the test, as T is
	server    *simulation.Server
	processes []*simulation.Process
	provider  capm3.Provider
	servers   []*server
	// before is what is being written, writes counts that.
	before client.Object
	writes int
	// working is the process that runs.
	working int
	// reuses is whether little happens but that Machines come and go, and leave their hosts to each other.
	reuses bool
}

func simScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(bmov1.GroupVersion, &bmov1.BareMetalHost{}, &bmov1.BareMetalHostList{})
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, metal3v1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newWorld(ctx context.Context, t *rapid.T) *world {
	w := newWorldOf(ctx, simulation.Schedule{T: t})
	if w.reuses = rapid.Bool().Draw(t, "reuses"); w.reuses {
		w.furnish()
	}
	return w
}

func newWorldOf(ctx context.Context, schedule simulation.Schedule) *world {
	w := &world{Schedule: schedule, ctx: ctx, server: simulation.NewServer(simScheme())}
	w.servers = []*server{{name: "s1"}, {name: "s2"}}
	w.provider = capm3.Provider{
		Client: w.server.Client(nil), Image: &bmov1.Image{URL: simImage, Checksum: "x"},
		Data:   &corev1.SecretReference{Name: "data", Namespace: simNamespace},
		Reuses: func(string) bool { return w.reuses || w.Pick("reused", "yes", "no") == "yes" },
		Old:    func() bool { return w.Pick("cache of the provider", "new", "new", "old") == "old" },
	}
	w.putCluster()
	w.processes = make([]*simulation.Process, 2)
	for i := range w.processes {
		w.start(i)
	}
	return w
}

// start begins a new process: it knows what is there now, and nothing of what its predecessor did.
func (w *world) start(n int) {
	cache := w.server.NewCache(machineGK, claimGK, hostGK, clusterGK)
	live := w.server.Client(w.fault)
	r := &Reconciler{
		Client: live, Recorder: simulation.Silent{}, Read: Readers{Own: cache, Clusters: cache, Live: live},
	}
	for _, index := range indexes() {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	var watches []simulation.Watch
	for _, watch := range r.watches() {
		watches = append(watches, simulation.WatchOf(simScheme(), watch.Object, watch.Requests, watch.Admits))
	}
	w.processes[n] = &simulation.Process{Cache: cache, Reconciler: r, Watches: watches}
	w.processes[n].Start(w.ctx)
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
		w.checkWrite(verb, key, w.before, w.server.Get(key))
	} else {
		w.before = w.server.Get(key)
		w.writes++
	}
	return w.Befall(answered)
}

// meanwhile has others do something between the reads of a run and its write.
func (w *world) meanwhile() {
	for range w.Index("others", 4) {
		switch w.Pick("meanwhile", "work", "provider", "claims", "user", "collect") {
		case "work":
			working := w.working
			w.work(1 - working)
			w.working = working
		case "provider":
			w.provide(w.Pick("machine", "m1", "m2"))
		case "claims":
			w.claim()
		case "user":
			w.user()
		case "collect":
			w.collect()
		}
	}
}

// work has a process work on a request. A run fails of an outage, or because something of this name is there.
func (w *world) work(n int) {
	process := w.processes[n]
	if process.Queued() == 0 {
		return
	}
	w.working = n
	lives, err := process.Work(w.ctx, w.Index("request", process.Queued()))
	if !lives {
		w.start(n)
	} else if err != nil && !errors.Is(err, simulation.ErrOutage) && !strings.Contains(err.Error(), "does not belong to this Metal3Machine") {
		w.T.Fatalf("a run failed: %v", err)
	}
}

// act does one thing that can happen.
func (w *world) act() {
	if w.reuses && w.Pick("roll", "yes", "no", "no", "no") == "yes" {
		w.roll()
		return
	}
	what := []string{"user", "user"}
	if w.reuses {
		what = nil
	}
	switch w.Pick("what", append(what, "provider", "provider", "provider", "claims", "claims", "claims", "metal3", "metal3",
		"collect", "deliver", "deliver", "deliver", "deliver", "work", "work", "work", "work", "restart", "fault", "fault")...) {
	case "user":
		w.user()
	case "provider":
		w.provide(w.Pick("machine", "m1", "m2"))
	case "claims":
		w.claim()
	case "metal3":
		w.servers[w.Index("server", len(w.servers))].step()
	case "collect":
		w.collect()
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

func (w *world) machine(name string) *Machine {
	object, ok := w.server.Get(w.server.KeyOf(capm3.NewMachine(simNamespace, name))).(runtime.Unstructured)
	if !ok {
		return nil
	}
	m := newMachine()
	m.Object = object.UnstructuredContent()
	return read(m)
}

func (w *world) getClaim(name string) *metal3v1.HostClaim {
	found := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name}}
	claim, _ := w.server.Get(w.server.KeyOf(found)).(*metal3v1.HostClaim)
	return claim
}

func (w *world) getHost(name string) *bmov1.BareMetalHost {
	found := &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name}}
	host, _ := w.server.Get(w.server.KeyOf(found)).(*bmov1.BareMetalHost)
	return host
}

func keyOf(kind schema.GroupKind, name string) simulation.Key {
	return simulation.Key{Kind: kind, NamespacedName: types.NamespacedName{Namespace: simNamespace, Name: name}}
}

// user does what users and administrators do.
func (w *world) user() {
	name := w.Pick("machine", "m1", "m2")
	m := capm3.NewMachine(simNamespace, name)
	switch w.Pick("does", "create", "create", "create", "delete", "delete", "delete claim", "delete proxy", "pause", "resume", "resume",
		"cluster", "cluster", "delete cluster", "server dies", "unhealthy", "foreign claim", "foreign host", "remove foreign",
	) {
	case "create":
		w.createMachine(name)
	case "delete":
		w.server.Remove(w.server.KeyOf(m))
	case "delete claim":
		w.server.Remove(keyOf(claimGK, name))
	case "delete proxy":
		w.server.Remove(keyOf(hostGK, name))
	case "pause", "resume":
		w.pause(name, w.Pick("paused", "yes", "no") == "yes")
	case "cluster":
		w.putCluster()
	case "delete cluster":
		w.server.Remove(keyOf(clusterGK, "cluster"))
	case "unhealthy":
		if host := w.getHost(name); host != nil && host.Spec.BMC.Address == "" {
			host.Annotations[metal3v1.UnhealthyAnnotation] = ""
			w.server.Put(host)
		}
	case "server dies":
		*w.servers[w.Index("server", len(w.servers))] = server{name: "another"}
	case "foreign claim":
		if w.getClaim(name) == nil {
			w.server.Put(&metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name, Labels: ourLabel()}})
		}
	case "foreign host":
		if w.getHost(name) == nil {
			host := &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name, Labels: ourLabel()}}
			host.Annotations = map[string]string{bmov1.PausedAnnotation: metal3v1.ProxyPause}
			host.Spec.BMC.Address = "redfish://host"
			host.Status.Provisioning.State = bmov1.StateProvisioned
			w.server.Put(host)
		}
	case "remove foreign":
		w.removeForeign(name)
	}
}

// ourLabel is what anybody can write.
func ourLabel() map[string]string {
	return map[string]string{metal3v1.MachineLabel: metal3v1.MachineLabelValue}
}

func (w *world) removeForeign(name string) {
	if claim := w.getClaim(name); claim != nil && len(claim.OwnerReferences) == 0 {
		w.server.Remove(keyOf(claimGK, name))
	}
	if host := w.getHost(name); host != nil && host.Spec.BMC.Address != "" {
		w.server.Remove(keyOf(hostGK, name))
	}
}

func (w *world) pause(name string, paused bool) {
	object := w.server.Get(keyOf(machineGK, name))
	if object == nil {
		return
	}
	annotations := object.GetAnnotations()
	delete(annotations, clusterv1.PausedAnnotation)
	if paused {
		annotations[clusterv1.PausedAnnotation] = ""
	}
	object.SetAnnotations(annotations)
	w.server.Put(object)
}

// provide has the provider take its next step with a Machine. It takes the Machine off its host only when it was told
// that there is nothing on that.
func (w *world) provide(name string) {
	at := name
	if m := w.machine(name); m != nil && m.Annotations[metal3v1.HostAnnotation] != "" {
		at = strings.TrimPrefix(m.Annotations[metal3v1.HostAnnotation], simNamespace+"/")
	}
	before := w.getHost(at)
	w.provider.Step(w.ctx, simNamespace, name)
	after := w.getHost(at)
	if before == nil || before.Spec.BMC.Address != "" || before.Spec.ConsumerRef == nil || after == nil || after.Spec.ConsumerRef != nil {
		return
	}
	for _, s := range w.servers {
		if claim := w.getClaim(at); claim != nil && s.claim == claim.UID && s.runs != "" {
			w.T.Fatalf("Machine %s is released while %s runs %s (%s)", name, s.name, s.runs, before.Status.Provisioning.State)
		}
	}
}

// collect deletes one thing whose owners are gone, as Kubernetes does, or removes those owners that are. It reports
// false if there is none.
func (w *world) collect() bool {
	uids := map[types.UID]bool{}
	for _, owner := range append(w.server.Objects(machineGK), w.server.Objects(clusterGK)...) {
		uids[owner.GetUID()] = true
	}
	for _, kind := range []schema.GroupKind{claimGK, hostGK} {
		for _, object := range w.server.Objects(kind) {
			owners := slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return !uids[ref.UID] })
			if len(owners) == len(object.GetOwnerReferences()) || object.GetDeletionTimestamp() != nil {
				continue
			}
			if object.SetOwnerReferences(owners); len(owners) > 0 {
				w.server.Put(object)
			} else {
				w.server.Remove(w.server.KeyOf(object))
			}
			return true
		}
	}
	return false
}

func describeMachine(m *Machine) string {
	return fmt.Sprintf("%s (%s)", m.Name, strings.TrimPrefix(m.Annotations[metal3v1.HostAnnotation], simNamespace+"/"))
}
