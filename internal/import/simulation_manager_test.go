package importer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/simulation"
)

// manager is an instance: its process, which is another one after each crash.
type manager struct {
	w    *world
	name string
	// works names its namespaces, none for all.
	works string
	kind  string
	// form is how its process calls new v3 Rancher clusters.
	form    importer.DisplayNameForm
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
	// ago is how many events ago the caches of the next process begin, in a story.
	ago map[schema.GroupKind]int
	// refused: the webhook has not answered in this run. there are the CAPI clusters that there were before it.
	refused bool
	there   map[types.UID]bool
	// origin is the management cluster, and place how people call it, where Rancher is in another one.
	origin types.UID
	place  string
	// cut is what a process has no connection to. One that has died meanwhile is down.
	cut  side
	down bool
	// titles are the display names that this process has given to new Rancher clusters.
	titles map[string]title
}

// title is a display name that was given.
type title struct {
	record simulation.Key
	at     time.Time
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

// rules are those of the instance.
func (m *manager) rules() importer.Rules {
	w := m.w
	v3, v1 := importer.Strategy(simV3{named: &w.named}), importer.Strategy(importv1.Strategy{})
	rules := importer.Rules{Active: v3, Others: []importer.Strategy{v1}, Self: instance.ID{Name: m.name}}
	rules.Origin, rules.OriginName, rules.DisplayName = m.origin, m.place, m.form
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
	return rules
}

// runs reports whether an instance runs.
func (w *world) runs(name string) bool {
	return slices.ContainsFunc(w.managers, func(m *manager) bool { return "/"+m.name == name })
}

// start begins a new process: it knows what is there now, and nothing of what its predecessor did.
func (m *manager) start() {
	w := m.w
	m.chooseForm()
	rules := m.rules()
	cache := m.cache(rules)
	live := w.server.Client(m.fault)
	m.names = newNameCache(w)
	ctx, cancel := context.WithCancel(w.ctx)
	m.end, m.killed, m.gates, m.dead = cancel, make(chan struct{}), map[types.NamespacedName]chan struct{}{}, false
	for _, key := range w.keys {
		m.gates[key] = make(chan struct{})
	}
	m.arrived, m.waits = make(chan types.NamespacedName, len(w.keys)), map[types.NamespacedName]bool{}
	m.titles = map[string]title{}
	killed, gates, arrived := m.killed, m.gates, m.arrived
	control, err := importer.Simulated{
		Rules: rules, Client: live.Cached(cache), Live: live, Names: m.names, Clock: w.clock, Downloader: w,
		Runs: w.runs,
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

// agos are how many events ago caches begin. API servers can be behind by any number.
var agos = []int{0, 0, 0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 1000}

var simCluster = &clusterv1.Cluster{}

// cache returns what a new process knows.
func (m *manager) cache(rules importer.Rules) *simulation.Cache {
	w := m.w
	cache := w.server.NewCache(simKinds...)
	switch {
	case m.ago != nil:
		for kind, events := range m.ago {
			cache.Rewind(kind, events)
		}
		m.ago = nil
	case w.unsettled && w.Pick("lists", "now", "the past") == "the past":
		for _, kind := range []schema.GroupKind{clusterGK, v3GK, v1GK} {
			cache.Rewind(kind, agos[w.Index("ago", len(agos))])
		}
	}
	owned := func(object client.Object) client.Object {
		namespace := cmp.Or(object.GetNamespace(), object.GetLabels()["cluster-api.cattle.io/capi-cluster-owner-ns"])
		labels := object.GetLabels()
		if _, ok := labels[ownedLabel]; !ok || !m.owns(namespace) || labels[archelonv1.ManagementClusterLabel] != string(m.origin) {
			return nil
		}
		return w.reduced(object)
	}
	cache.Keep(v3GK, owned)
	cache.Keep(v1GK, owned)
	cache.Keep(clusterGK, func(object client.Object) client.Object {
		if !m.owns(object.GetNamespace()) {
			return nil
		}
		return w.reduced(object)
	})
	for _, strategy := range []importer.Strategy{rules.Active, rules.Others[0]} {
		cache.Index(importer.RecordOf(strategy), importer.OwnerIndex, importer.OwnerKeys)
	}
	for name, keys := range importer.ClusterIndexes(rules.Active) {
		cache.Index(simCluster, name, keys)
	}
	return cache
}

// owns reports whether the instance works in a namespace.
func (m *manager) owns(namespace string) bool {
	return m.works == "" || slices.Contains(strings.Split(m.works, ","), namespace)
}

var errDead = errors.New("the process is dead")

// reduced is what caches keep of an object. It must not be changed.
func (w *world) reduced(object client.Object) client.Object {
	if known := cmp.Or(w.kept[object], w.from.kept[object]); known != nil {
		return known
	}
	kept, _ := importer.Rules{}.Reduce(object.DeepCopyObject())
	w.kept[object], _ = kept.(client.Object)
	return w.kept[object]
}

// die ends the process and begins another one.
func (m *manager) die() {
	close(m.killed)
	m.end()
	m.w.loseVanished()
	m.start()
	m.down = m.cut != ""
}

// fault disturbs writes as the schedule has it, and looks at each of them.
func (m *manager) fault(verb string, key simulation.Key, answered bool) error {
	w := m.w
	if m.dead {
		return errDead
	}
	if m.cut.has(key) {
		return simulation.ErrOutage
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
	if refused := m.refusal(verb, key, answered); refused != nil {
		w.say("   %s writes: %s %s: %v", m.name, verb, key, refused)
		return refused
	}
	w.working = m
	if answered {
		w.checkWrite(verb, key, w.before, w.server.Peek(key))
		w.written = append(w.written, writing{verb, key, w.server.Peek(key)})
	} else {
		w.before = w.server.Peek(key)
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

func (m *manager) deliverName() bool {
	before, after, ok := m.names.next()
	if ok && (before != nil || after != nil) {
		m.process.Wake(m.control.Named(m.w.ctx, before, after)...)
	}
	return ok
}

// behind is how many events there are of which one can be shown next.
func (m *manager) behind() int {
	if m.down {
		return 0
	}
	n := len(m.kindsBehind())
	if m.namesBehind() {
		n++
	}
	return n
}

// namesBehind reports whether the next event of a display name can be shown.
func (m *manager) namesBehind() bool { return m.cut != rancherSide && m.names.behind() }

// kindsBehind are the kinds of which the next event can be shown.
func (m *manager) kindsBehind() []schema.GroupKind {
	return slices.DeleteFunc(m.process.Cache.Behind(), m.cut.hasKind)
}
