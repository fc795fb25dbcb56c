package importer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	clusterGK   = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}
	v3GK        = schema.GroupKind{Group: "management.cattle.io", Kind: "Cluster"}
	v1GK        = schema.GroupKind{Group: "provisioning.cattle.io", Kind: "Cluster"}
	tokenGK     = schema.GroupKind{Group: "management.cattle.io", Kind: "ClusterRegistrationToken"}
	settingGK   = schema.GroupKind{Group: "management.cattle.io", Kind: "Setting"}
	leaseGK     = schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}
	namespaceGK = schema.GroupKind{Kind: "Namespace"}
	secretGK    = schema.GroupKind{Kind: "Secret"}
	simKinds    = []schema.GroupKind{clusterGK, v3GK, v1GK, tokenGK, settingGK, leaseGK, namespaceGK, secretGK}
)

const (
	ownedLabel = "cluster-api.cattle.io/owned"
	uidLabel   = "archelon.io/capi-cluster-uid"
	simURL     = "https://rancher.example.com"
)

// world is a simulated management cluster with Rancher in it, managers, CAPI, users, workload clusters with their
// agents, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t        *rapid.T
	ctx      context.Context //nolint:containedctx // it is that of the test, as t is
	server   *simulation.Server
	clock    *clocktesting.FakePassiveClock
	scheme   *runtime.Scheme
	managers []*manager
	sites    map[types.NamespacedName]*site
	// working is the manager that writes.
	working *manager
	// story is what has happened. It is told when something is wrong.
	story []sentence
	wrong string
	// changes counts what no write shows.
	changes int
	// before is what is being written.
	before client.Object
	// lost are the CAPI clusters, by UID, whose finalizers somebody took away, and removed those whose record was
	// deleted in Rancher.
	lost, removed map[types.UID]bool
	// cleaned are the v3 Clusters of which the clean-up has begun, and foreign those that no manager may touch.
	cleaned map[types.UID]bool
	foreign map[simulation.Key]bool
	// created are the CAPI clusters, by UID, that Rancher clusters were created for. spared are those that nobody ever
	// asked to leave Rancher.
	created map[types.UID]types.UID
	spared  map[types.UID]bool
	// approved is whose agents may be taken over, and backups are CAPI clusters that can be restored.
	approved map[types.NamespacedName][]string
	backups  map[types.NamespacedName]*clusterv1.Cluster
	// vandals: somebody changes once what only managers write. No more must come of that than that a person is asked.
	// Whoever takes two marks off, has nobody know the Rancher cluster any more.
	vandals, vandalized bool
	// unsettled: things go wrong. divided: there are two instances.
	unsettled, divided bool
	// named, made and tokens count names.
	named, made, tokens int
}

type sentence struct {
	format string
	args   []any
}

func (w *world) say(format string, args ...any) { w.story = append(w.story, sentence{format, args}) }

// fail ends the schedule. A job must not do that itself: it runs beside the test.
func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// judge tells the story if something is wrong.
func (w *world) judge() {
	if w.wrong == "" {
		return
	}
	var told strings.Builder
	for n, s := range w.story {
		fmt.Fprintf(&told, "%3d. "+s.format+"\n", append([]any{n + 1}, s.args...)...)
	}
	w.t.Fatalf("%s\n%s", w.wrong, told.String())
}

// manager is an instance: its process, which is another one after each crash.
type manager struct {
	w    *world
	name string
	// works names its namespaces, none for all.
	works   string
	kind    string
	process *simulation.Process
	names   *nameCache
	control *importer.Reconciler
	end     context.CancelFunc
	killed  chan struct{}
	// A job arrives at its gate, and waits there until the schedule has it go on.
	arrived chan types.NamespacedName
	waits   map[types.NamespacedName]bool
	gates   map[types.NamespacedName]chan struct{}
	dead    bool
	inJob   bool
}

var (
	simScheme = sync.OnceValue(func() *runtime.Scheme {
		s, err := scheme.New()
		if err != nil {
			panic(err)
		}
		if err := metav1.AddMetaToScheme(s); err != nil {
			panic(err)
		}
		return s
	})
	simShared = sync.OnceValue(func() *importer.Shared {
		shared, err := importer.NewShared()
		if err != nil {
			panic(err)
		}
		return shared
	})
)

var simClusters = []types.NamespacedName{{Namespace: "a", Name: "prod"}, {Namespace: "b", Name: "prod"}}

func newWorld(ctx context.Context, t *rapid.T, kind string) *world {
	w := &world{
		Schedule: simulation.Schedule{T: t}, t: t, ctx: ctrl.LoggerInto(ctx, logr.Discard()), scheme: simScheme(),
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)),
		sites: map[types.NamespacedName]*site{}, lost: map[types.UID]bool{}, removed: map[types.UID]bool{},
		cleaned: map[types.UID]bool{}, foreign: map[simulation.Key]bool{}, created: map[types.UID]types.UID{}, spared: map[types.UID]bool{},
		approved: map[types.NamespacedName][]string{}, backups: map[types.NamespacedName]*clusterv1.Cluster{},
	}
	w.vandals = rapid.Bool().Draw(t, "vandals")
	w.server = simulation.NewServer(w.scheme)
	w.server.Now = w.clock.Now
	for _, name := range []string{"a", "b"} {
		w.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	for name, value := range map[string]string{
		"server-url": simURL, "cacerts": "", "agent-tls-mode": "system-store", "agent-image": "", "system-default-registry": "",
	} {
		w.server.Put(&managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	for _, key := range simClusters {
		w.sites[key] = &site{}
		w.server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}})
	}
	neighbour := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-vvvvv"}}
	neighbour.Spec.DisplayName = "neighbour"
	w.server.Put(neighbour)
	w.foreign[w.server.KeyOf(neighbour)] = true
	w.managers = []*manager{{w: w, name: "archelon", kind: kind}}
	if w.divided = rapid.Bool().Draw(t, "divided"); w.divided {
		// An instance each for namespaces a and b, of which b is handed over from time to time.
		w.managers = []*manager{{w: w, name: "one", kind: kind, works: "a,b"}, {w: w, name: "two", kind: kind, works: "c"}}
	}
	for _, m := range w.managers {
		m.start() //nolint:contextcheck // a process has a life of its own
	}
	w.unsettled = true
	return w
}

// simV3 proposes names that are the same whenever a schedule is replayed.
type simV3 struct {
	importv3.Strategy
	named *int
}

// ProposeName implements importer.Strategy.
func (s simV3) ProposeName(_ *clusterv1.Cluster, taken func(string) bool) string {
	const letters = "bcdfghjklmnpqrstvwxz"
	for {
		*s.named++
		n := *s.named
		if name := fmt.Sprintf("c-bbb%c%c", letters[n/len(letters)%len(letters)], letters[n%len(letters)]); !taken(name) {
			return name
		}
	}
}

// start begins a new process: it knows what is there now, and nothing of what its predecessor did.
func (m *manager) start() {
	w := m.w
	v3, v1 := importer.Strategy(simV3{named: &w.named}), importer.Strategy(importv1.Strategy{})
	rules := importer.Rules{Active: v3, Others: []importer.Strategy{v1}, Self: instance.ID{Name: m.name}}
	if m.works != "" {
		scope, err := shard.New(strings.Split(m.works, ","), nil)
		if err != nil {
			w.t.Fatal(err)
		}
		rules.Claim = instance.Claim{Scope: scope}
	}
	if m.kind == "v1" {
		rules.Active, rules.Others = v1, []importer.Strategy{v3}
	}
	cache := m.cache(rules)
	live := w.server.Client(m.fault)
	m.names = newNameCache(w.server)
	ctx, cancel := context.WithCancel(w.ctx)
	m.end, m.killed, m.gates, m.dead = cancel, make(chan struct{}), map[types.NamespacedName]chan struct{}{}, false
	for _, key := range simClusters {
		m.gates[key] = make(chan struct{})
	}
	m.arrived, m.waits = make(chan types.NamespacedName, len(simClusters)), map[types.NamespacedName]bool{}
	killed, gates, arrived := m.killed, m.gates, m.arrived
	control, err := importer.Simulated{
		Rules: rules, Client: live.Cached(cache), Live: live, Names: m.names, Clock: w.clock, Downloader: w, Switches: 1,
		Runs: func(name string) bool {
			return slices.ContainsFunc(w.managers, func(other *manager) bool { return "/"+other.name == name })
		},
		Open: func(ctx context.Context, key types.NamespacedName) (importer.Site, error) {
			arrived <- key
			select {
			case <-gates[key]:
			case <-killed:
				return nil, errDead
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return opened{w.sites[key], m, key}, nil
		},
	}.Start(ctx, simShared())
	if err != nil {
		w.t.Fatal(err)
	}
	m.control = control
	m.process = &simulation.Process{
		Cache: cache, Reconciler: control, Watches: control.Watching(w.scheme, importLabel, "archelon.io/managed-by"),
	}
	m.process.Start(w.ctx)
}

// cache returns what a new process knows.
func (m *manager) cache(rules importer.Rules) *simulation.Cache {
	w := m.w
	cache := w.server.NewCache(simKinds...)
	if w.unsettled && w.Pick("lists", "now", "the past") == "the past" {
		for _, kind := range []schema.GroupKind{clusterGK, v3GK, v1GK} {
			cache.Rewind(kind, w.Index("events ago", 8))
		}
	}
	owned := func(object client.Object) client.Object {
		namespace := cmp.Or(object.GetNamespace(), object.GetLabels()["cluster-api.cattle.io/capi-cluster-owner-ns"])
		if _, ok := object.GetLabels()[ownedLabel]; !ok || !m.owns(namespace) {
			return nil
		}
		return reduced(object)
	}
	cache.Keep(v3GK, owned)
	cache.Keep(v1GK, owned)
	cache.Keep(clusterGK, func(object client.Object) client.Object {
		if !m.owns(object.GetNamespace()) {
			return nil
		}
		return reduced(object)
	})
	for _, strategy := range []importer.Strategy{rules.Active, rules.Others[0]} {
		cache.Index(strategy.NewObject(), importer.OwnerIndex, importer.OwnerKeys)
	}
	for name, keys := range importer.ClusterIndexes(rules.Active) {
		cache.Index(&clusterv1.Cluster{}, name, keys)
	}
	return cache
}

// owns reports whether the instance works in a namespace.
func (m *manager) owns(namespace string) bool {
	return m.works == "" || slices.Contains(strings.Split(m.works, ","), namespace)
}

var errDead = errors.New("the process is dead")

// reduced is what caches keep.
func reduced(object client.Object) client.Object {
	kept, _ := importer.Reduce(object)
	small, _ := kept.(client.Object)
	return small
}

// die ends the process and begins another one.
func (m *manager) die() {
	close(m.killed)
	m.end()
	m.start()
}

// fault disturbs writes as the schedule has it, and looks at each of them.
func (m *manager) fault(verb string, key simulation.Key, answered bool) error {
	w := m.w
	if m.dead {
		return errDead
	}
	if verb == "get" || verb == "list" {
		return nil
	}
	w.working = m
	if w.Faulty == "meanwhile" && !answered {
		w.Faulty = ""
		w.say("... meanwhile:")
		w.meanwhile(m)
		w.working = m
	}
	if answered {
		w.checkWrite(verb, key, w.before, w.server.Get(key))
	} else {
		w.before = w.server.Get(key)
		w.say("   %s writes: %s %s", m.name, verb, key)
	}
	if w.Faulty != "" {
		w.say("   %s: %s", m.name, w.Faulty)
	}
	if m.inJob && strings.HasPrefix(w.Faulty, "crash") {
		// The process of a job dies when the job has ended, which fails from here on.
		if (w.Faulty == "crash after") == answered {
			w.Faulty, m.dead = "", true
			return errDead
		}
		return nil
	}
	return w.Befall(answered)
}

// work has a manager reconcile one of the clusters that wait.
func (w *world) work(m *manager, n int) {
	lives, err := m.process.Work(w.ctx, n)
	if !lives {
		w.say("%s dies and starts again", m.name)
		m.die()
	} else if err != nil {
		w.say("   it fails: %v", err)
	}
	for _, key := range m.control.RunningJobs() {
		for !m.waits[key] {
			m.waits[<-m.arrived] = true
		}
	}
	m.wake()
}

// wake takes up what the process has woken itself by.
func (m *manager) wake() {
	for _, name := range m.control.Woken() {
		for _, key := range simClusters {
			if key.Name == name {
				m.process.Wake(ctrl.Request{NamespacedName: key})
			}
		}
	}
}

// job has a job of a manager run.
func (w *world) job(m *manager, key types.NamespacedName) {
	m.inJob = true
	m.gates[key] <- struct{}{}
	request := m.control.AwaitJob()
	delete(m.waits, key)
	m.inJob = false
	if m.dead {
		w.say("%s dies in its work on the agent, and starts again", m.name)
		m.die()
		return
	}
	m.process.Wake(request)
}

// deliver shows a manager an event.
func (w *world) deliver(m *manager, n int) bool {
	behind := m.process.Cache.Behind()
	if n < len(behind) {
		w.say("%s sees a change of a %s in %s", m.name, behind[n].Kind, behind[n].Group)
		return m.process.Deliver(w.ctx, behind[n])
	}
	w.say("%s sees a change of a display name", m.name)
	return m.deliverName()
}

func (m *manager) deliverName() bool {
	before, after, ok := m.names.next()
	if ok && (before != nil || after != nil) {
		m.process.Wake(m.control.Named(m.w.ctx, before, after)...)
	}
	return ok
}

// behind is how many events there are of which one can be shown next.
func (m *manager) behind() int {
	n := len(m.process.Cache.Behind())
	if m.names.behind() {
		n++
	}
	return n
}

// rest has everything happen that is under way, faults apart, until nothing is. It reports false if that does not end.
func (w *world) rest() bool {
	w.Faulty, w.unsettled = "", false
	for round := range 30 {
		before := w.state()
		for steps := 0; w.goOn(); steps++ {
			if w.wrong != "" {
				return true
			}
			if steps == 2000 {
				return false
			}
		}
		if round > 0 && w.state() == before {
			return true
		}
		w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
		for _, m := range w.managers {
			m.process.Later()
		}
	}
	return false
}

// state is another one after everything that changes something.
func (w *world) state() [2]int { return [2]int{w.server.Version(), w.changes} }

// goOn does one thing that is under way, and reports false if there is none.
func (w *world) goOn() bool {
	for _, m := range w.managers {
		switch running := m.control.RunningJobs(); {
		case m.behind() > 0:
			return w.deliver(m, 0)
		case m.process.Queued() > 0:
			w.work(m, 0)
			return true
		case len(running) > 0:
			w.job(m, running[0])
			return true
		}
	}
	if reactions := w.reactions(); len(reactions) > 0 {
		reactions[0].do()
		return true
	}
	return false
}
