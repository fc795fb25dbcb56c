package importer_test

import (
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/test/simulation"
)

// imported has all clusters be imported: in most worlds by processes that are no more, for that is the same each time
// and takes longer than the rest of a schedule. The first that a story, or a shorter schedule, has is not one of them.
// Most of the processes that come after have yet to look at what they find.
func (w *world) imported() {
	if w.T != nil && w.Index("imported by", 16)+w.Index("or by", 16) > 0 { // One draw alone would be 0 too often.
		if w.resume(w.settled()); w.Index("looked at", 4) > 0 {
			w.say("--- all clusters are imported, and processes have just started ---")
			return
		}
	} else {
		w.importAll()
	}
	if !w.rest() {
		w.fail("it does not come to rest")
	}
	w.judge()
	w.say("--- all clusters are imported ---")
}

// importAll has the processes of the world import all clusters.
func (w *world) importAll() {
	w.start()
	for _, key := range w.usual() {
		w.create(key)
		cluster := w.cluster(key)
		cluster.Labels = map[string]string{importLabel: "true"}
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.DisplayNameAnnotation, key.Namespace+"-"+key.Name)
		cluster.Status.Initialization.ControlPlaneInitialized = new(true)
		w.server.Put(cluster)
		w.spared[cluster.UID] = true
	}
}

// form is what worlds differ by in which all clusters are imported.
type form struct {
	kind                          string
	twins, alone, divided, remote bool
}

// settled is what a world was when all clusters were imported.
type settled struct {
	server              *simulation.Server
	now                 time.Time
	sites               map[types.NamespacedName]site
	created             map[types.UID]types.UID
	spared              map[types.UID]bool
	foreign             map[simulation.Key]bool
	changes             int
	named, made, tokens int
	kept                map[client.Object]client.Object
	names               map[client.Object]*rancher.NamedCluster
}

// settledWorlds has one of each form. They are made when they are needed first, and not changed.
var (
	settledWorlds sync.Map
	settling      sync.Mutex
)

// settled returns a world of the form of this one in which all clusters are imported.
func (w *world) settled() *settled {
	of := form{w.managers[0].kind, w.twins, w.alone, w.divided, w.remote}
	settling.Lock()
	defer settling.Unlock()
	if known, ok := settledWorlds.Load(of); ok {
		found, _ := known.(*settled)
		return found
	}
	first := emptyWorld(w.ctx, w.t, simulation.Schedule{})
	first.twins, first.alone, first.divided, first.remote = w.twins, w.alone, w.divided, w.remote
	first.begin(of.kind)
	first.imported()
	defer first.stop()
	s := &settled{
		server: first.server.Clone(), now: first.clock.Now(), sites: map[types.NamespacedName]site{}, created: first.created, spared: first.spared,
		foreign: first.foreign, changes: first.changes, named: first.named, made: first.made, tokens: first.tokens,
		kept: first.kept, names: first.names,
	}
	for key, site := range first.sites {
		s.sites[key] = *site
	}
	settledWorlds.Store(of, s)
	return s
}

// resume has the world be what it was when all clusters were imported, and new processes find it so.
func (w *world) resume(s *settled) {
	w.from, w.server = s, s.server.Clone()
	w.server.Now = w.clock.Now
	w.clock.SetTime(s.now)
	for key, site := range s.sites {
		w.sites[key] = &site
	}
	w.created, w.spared, w.foreign = maps.Clone(s.created), maps.Clone(s.spared), maps.Clone(s.foreign)
	w.changes, w.named, w.made, w.tokens = s.changes, s.named, s.made, s.tokens
	w.start()
}

// walking has garbage be collected seldom while a test walks schedules: there is much of it, and little that is kept.
// What it returns counts a schedule that was walked from its beginning to the checks at its end. In the end it tells
// how many those were, and how long they took.
func walking(t *testing.T) (walked func()) {
	t.Helper()
	before, began, schedules := debug.SetGCPercent(1600), time.Now(), &atomic.Int64{}
	t.Cleanup(func() {
		debug.SetGCPercent(before)
		n := schedules.Load()
		t.Logf("%d schedules were walked to their end, %.0f a minute", n, float64(n)/time.Since(began).Minutes())
	})
	return func() { schedules.Add(1) }
}
