package importer_test

import (
	"context"
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
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
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

// failing is the test that a world belongs to.
type failing interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a simulated management cluster with Rancher in it, managers, CAPI, users, workload clusters with their
// agents, and all that can go wrong between them.
type world struct {
	simulation.Schedule

	t        failing
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
	// unsettled: things go wrong. divided: there are two instances. patient: managers are slower than Rancher and
	// CAPI where nothing goes wrong.
	unsettled, divided, patient bool
	// remote: there are two management clusters, and Rancher is in neither.
	remote bool
	// snapshots are backups of management clusters, by namespace.
	snapshots map[string][]client.Object
	// silent are CAPI clusters, by UID, that went without anybody having asked for it.
	silent map[types.UID]bool
	// webhookDown: Rancher's admission webhook does not answer.
	webhookDown bool
	// keys are the names of CAPI clusters. twins: one of them is that of the v1 record of another one. alone:
	// there is one apart from that.
	keys         []types.NamespacedName
	twins, alone bool
	// vanished are CAPI clusters, by UID, that went with the finalizer which they got too late to be held by it.
	vanished map[types.UID]bool
	// written is what was written since the last comparison with a plan began; compared: there was one.
	written  []writing
	compared bool
	// interlude is what happens meanwhile in a story, befalls what becomes of a write, and
	// withheld what has yet to happen.
	interlude func()
	befalls   func(verb string, key simulation.Key) error
	withheld  func(what string) bool
	// others are processes beside those that go on.
	others []*manager
	// kept and names are what caches keep of objects. Where the world goes on from another one,
	// from has what they kept there.
	kept  map[client.Object]client.Object
	names map[client.Object]*rancher.NamedCluster
	from  *settled
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

var (
	simClusters = []types.NamespacedName{{Namespace: "a", Name: "prod"}, {Namespace: "b", Name: "prod"}}
	// simTwin has the name that the v1 record of the first one has.
	simTwin = types.NamespacedName{Namespace: "a", Name: "prod-capi"}
)

func newWorld(ctx context.Context, t *rapid.T, kind string) *world {
	w := emptyWorld(ctx, t, simulation.Schedule{T: t})
	w.vandals = rapid.Bool().Draw(t, "vandals")
	w.divided = rapid.IntRange(0, 2).Draw(t, "instances") == 2
	w.twins = kind == "v1" && rapid.IntRange(0, 2).Draw(t, "twins") == 0
	w.drawClusters()
	w.begin(kind)
	return w
}

func emptyWorld(ctx context.Context, t failing, schedule simulation.Schedule) *world {
	return &world{
		Schedule: schedule, t: t, ctx: ctrl.LoggerInto(ctx, logr.Discard()), scheme: simScheme(), vanished: map[types.UID]bool{}, silent: map[types.UID]bool{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)),
		sites: map[types.NamespacedName]*site{}, lost: map[types.UID]bool{}, removed: map[types.UID]bool{},
		cleaned: map[types.UID]bool{}, foreign: map[simulation.Key]bool{}, created: map[types.UID]types.UID{}, spared: map[types.UID]bool{},
		approved: map[types.NamespacedName][]string{}, backups: map[types.NamespacedName]*clusterv1.Cluster{},
		kept: map[client.Object]client.Object{}, names: map[client.Object]*rancher.NamedCluster{}, from: &settled{},
	}
}

// drawClusters draws whether there is one CAPI cluster or more. What goes wrong with one is found sooner where all
// steps are about it, and rest comes in half the time; what they do to each other takes two.
func (w *world) drawClusters() { w.alone = w.Pick("clusters", "one", "one", "two") == "one" }

// usual are the CAPI clusters that there can be in any case. The one alone is that which is handed over between
// instances, if there are two.
func (w *world) usual() []types.NamespacedName {
	switch {
	case !w.alone:
		return simClusters
	case w.divided && !w.twins:
		return simClusters[1:]
	default:
		return simClusters[:1]
	}
}

// begin has managers that have yet to start, and names of CAPI clusters.
func (w *world) begin(kind string) {
	if w.keys = w.usual(); w.twins {
		w.keys = append(slices.Clip(w.keys), simTwin)
	}
	for _, key := range w.keys {
		w.sites[key] = &site{}
	}
	w.managers = []*manager{{w: w, name: "archelon", kind: kind}}
	if w.divided {
		// An instance each for namespaces a and b, of which b is handed over from time to time.
		w.managers = []*manager{{w: w, name: "one", kind: kind, works: "a,b"}, {w: w, name: "two", kind: kind, works: "c"}}
	}
	if w.remote {
		w.managers = []*manager{
			{w: w, name: "one", kind: kind, works: "a", origin: "origin-a", place: "east"}, {w: w, name: "two", kind: kind, works: "b", origin: "origin-b", place: "west"},
		}
	}
}

// build has Rancher run, which knows no CAPI cluster.
func (w *world) build() {
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
	for _, key := range w.keys {
		w.server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}})
	}
	neighbour := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-vvvvv"}}
	neighbour.Spec.DisplayName = "neighbour"
	w.server.Put(neighbour)
	w.foreign[w.server.KeyOf(neighbour)] = true
}

// start has all processes start.
func (w *world) start() {
	if w.server == nil {
		w.build()
	}
	for _, m := range w.managers {
		m.start()
	}
}

// work has a manager reconcile one of the clusters that wait.
func (w *world) work(m *manager, n int) {
	m.refused, m.there = false, map[types.UID]bool{}
	for _, cluster := range w.clusters() {
		m.there[cluster.UID] = true
	}
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
	behind := m.kindsBehind()
	if n < len(behind) {
		w.say("%s sees a change of a %s in %s", m.name, behind[n].Kind, behind[n].Group)
		return m.process.Deliver(w.ctx, behind[n])
	}
	w.say("%s sees a change of a display name", m.name)
	return m.deliverName()
}

// rest has everything happen that is under way, faults apart, until nothing is. It reports false if that does not end.
func (w *world) rest() bool {
	w.Faulty, w.unsettled = "", false
	w.heal()
	w.patient = w.Index("faster", 8) > 0
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
	if w.patient && w.react() {
		return true
	}
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
	return w.react()
}

// react has the next of the reactions of Rancher and CAPI come, and reports false if there is none.
func (w *world) react() bool {
	reactions := w.reactions()
	if len(reactions) > 0 {
		reactions[0].do()
	}
	return len(reactions) > 0
}
