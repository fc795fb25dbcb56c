package importer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/simulation"
)

// A story is a schedule that somebody has thought out, in the same world. It says what a schedule at random hits too
// seldom.
type story struct {
	kinds []string
	// without: no cluster is imported yet. twins: there can be a CAPI cluster of the name of a v1 record.
	// divided: there are two instances. remote: there are two management clusters.
	without, twins, divided, remote bool
	tell                            func(w *world)
}

// TestSimulationOfRaces tells stories of races that were fixed. What must hold in any schedule must hold in them.
func TestSimulationOfRaces(t *testing.T) {
	told := stories()
	for _, name := range slices.Sorted(maps.Keys(told)) {
		for _, kind := range told[name].kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				told[name].check(t, kind)
			})
		}
	}
}

func (s story) check(t *testing.T, kind string) {
	t.Helper()
	w := emptyWorld(t.Context(), t, simulation.Schedule{Script: map[string]string{}})
	w.twins, w.divided, w.remote, w.snapshots = s.twins, s.divided, s.remote, map[string][]client.Object{}
	w.begin(kind)
	t.Cleanup(w.stop)
	if s.without {
		w.start()
	} else {
		w.imported()
	}
	s.tell(w)
	w.judge()
	w.checkEnd()
	w.judge()
}

// frozen returns another process of the same instance, of a strategy, which sees what is there now, or what was there
// some events ago, and nothing later unless it is shown that. Nobody has told it that it does not lead any more.
func (w *world) frozen(kind string, ago map[schema.GroupKind]int) *manager {
	m := &manager{w: w, name: w.managers[0].name, kind: kind, ago: ago}
	m.start()
	w.others = append(w.others, m)
	return m
}

// sees shows a process all changes of kinds.
func (m *manager) sees(kinds ...schema.GroupKind) {
	for _, kind := range kinds {
		m.w.say("%s sees all changes of each %s in %s", m.name, kind.Kind, kind.Group)
		for m.process.Deliver(m.w.ctx, kind) {
			continue
		}
	}
}

// looks has a process work on a CAPI cluster.
func (m *manager) looks(key types.NamespacedName) {
	request := ctrl.Request{NamespacedName: key}
	m.w.say("%s works on %s", m.name, key)
	m.process.Wake(request)
	m.w.work(m, m.process.Place(request))
}

// rests has everything happen that is under way.
func (w *world) rests() {
	if !w.rest() {
		w.fail("it does not come to rest")
	}
	w.judge()
}

// happens has the next of Rancher's and CAPI's reactions happen that begins with some words.
func (w *world) happens(words string) {
	for _, reaction := range w.reactions() {
		if strings.HasPrefix(reaction.what, words) {
			w.say("%s", reaction.what)
			reaction.do()
			return
		}
	}
	w.fail("nothing happens as in %q", words)
}

// changesIt has the user of a CAPI cluster change it.
func (w *world) changesIt(key types.NamespacedName, change func(*clusterv1.Cluster)) {
	cluster := w.cluster(key)
	w.say("the user of %s changes it", key)
	change(cluster)
	w.server.Put(cluster)
}

func labelled(value string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, importLabel, value) }
}

// excludes has the user take a CAPI cluster out of Rancher.
func (w *world) excludes(key types.NamespacedName) {
	delete(w.spared, w.cluster(key).UID)
	w.changesIt(key, labelled("false"))
}

// deletesIt has the user delete a CAPI cluster.
func (w *world) deletesIt(key types.NamespacedName) {
	cluster := w.cluster(key)
	w.say("the user deletes CAPI cluster %s", key)
	w.backups[key] = cluster.DeepCopy()
	delete(w.spared, cluster.UID)
	w.server.Remove(w.server.KeyOf(cluster))
}

// vanishes has a CAPI cluster go that was asked to go before it was held.
func (w *world) vanishes(key types.NamespacedName) {
	cluster := w.cluster(key)
	w.say("CAPI cluster %s vanishes", key)
	delete(w.spared, cluster.UID)
	w.server.Vanish(w.server.KeyOf(cluster))
}

// recordOf returns the Rancher cluster of a CAPI cluster.
func (w *world) recordOf(key types.NamespacedName) client.Object {
	records := w.recordsOf(w.cluster(key).UID)
	if len(records) != 1 {
		w.fail("%s has %v", key, records)
		w.judge()
	}
	return w.server.Get(records[0])
}

// removes has somebody delete the Rancher cluster of a CAPI cluster in Rancher.
func (w *world) removes(key types.NamespacedName) {
	record, owner := w.server.KeyOf(w.recordOf(key)), w.cluster(key).UID
	w.say("somebody deletes %s in Rancher", record)
	delete(w.spared, owner)
	w.removed[owner] = true
	w.server.Remove(record)
}

// strips has somebody take a label off the Rancher cluster of a CAPI cluster.
func (w *world) strips(key types.NamespacedName, label string) {
	record := w.recordOf(key)
	w.say("somebody takes label %s off %s", label, w.server.KeyOf(record))
	labels := record.GetLabels()
	delete(labels, label)
	record.SetLabels(labels)
	w.server.Put(record)
}

// creates has a user create a CAPI cluster that is to be imported.
func (w *world) creates(key types.NamespacedName, label string) {
	w.create(key)
	w.changesIt(key, labelled(label))
}

// withholds has nothing happen for the time being that is told by one of some words.
func (w *world) withholds(words ...string) {
	w.withheld = func(what string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(what, word) })
	}
}

// once has a write of some kind fail, once.
func (w *world) once(verb string, kind schema.GroupKind, cause error) {
	w.befalls = func(found string, key simulation.Key) error {
		if found != verb || key.Kind != kind {
			return nil
		}
		w.befalls = nil
		return fmt.Errorf("%s %s: %w", verb, key, cause)
	}
}
