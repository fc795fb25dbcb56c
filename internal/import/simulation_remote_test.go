package importer_test

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever connection is cut at any moment, of two management clusters to one Rancher: no CAPI cluster has two Rancher
// clusters, no process touches those of the other management cluster, nothing is deleted by silence, and once the
// connections are there again everything ends as if they had been there all the time.
func TestSimulationOfPartitions(t *testing.T) {
	ctx := t.Context()
	walked := walking(t)
	unlessSet(t, map[string]string{"rapid.checks": "60", "rapid.seed": "1"})
	for name, begin := range map[string]func(*world){"new": (*world).start, "imported": (*world).imported} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				w := emptyWorld(ctx, t, simulation.Schedule{T: t})
				w.remote, w.snapshots = true, map[string][]client.Object{}
				w.drawClusters()
				w.begin("v3")
				begin(w)
				w.unsettled = true
				for range rapid.IntRange(5, 40).Draw(t, "steps") {
					w.partitionStep() //nolint:contextcheck // processes have lives of their own
					w.judge()
				}
				w.checkEnd() //nolint:contextcheck // processes have lives of their own
				w.stop()
				walked()
			})
		})
	}
}

// side is what a process has a connection to.
type side string

const (
	rancherSide side = "Rancher"
	homeSide    side = "its management cluster"
)

// has reports whether an object is on the side.
func (s side) has(key simulation.Key) bool {
	if s == "" {
		return false
	}
	home := key.Kind == clusterGK || key.Kind == leaseGK ||
		(key.Kind == secretGK || key.Kind == namespaceGK) && slices.ContainsFunc(simClusters, func(c client.ObjectKey) bool {
			return c.Namespace == key.Namespace || c.Namespace == key.Name
		})
	return home == (s == homeSide)
}

// hasKind reports whether events of a kind come from the side, or may do so.
func (s side) hasKind(kind schema.GroupKind) bool {
	switch kind {
	case secretGK, namespaceGK:
		return s != ""
	case clusterGK, leaseGK:
		return s == homeSide
	default:
		return s == rancherSide
	}
}

// partitionStep does one thing that can happen to two management clusters and their Rancher.
func (w *world) partitionStep() {
	switch w.Pick("what", "usual", "usual", "usual", "usual", "usual", "usual", "cut", "heal", "backup", "restore") {
	case "usual":
		w.act()
	case "cut":
		m := w.someManager()
		m.cut = rancherSide
		if w.Pick("side", "Rancher", "home") == "home" {
			m.cut = homeSide
		}
		w.say("%s loses its connection to %s", m.name, m.cut)
	case "heal":
		w.heal()
	case "backup":
		m := w.someManager()
		w.snapshots[m.works] = w.within(m.works)
		w.say("somebody backs the management cluster of %s up", m.name)
	case "restore":
		if m := w.someManager(); w.snapshots[m.works] != nil {
			w.restore(m)
		}
	}
}

// heal connects all processes again. Those that could not start do so now.
func (w *world) heal() {
	for _, m := range w.managers {
		if m.cut == "" {
			continue
		}
		w.say("%s is connected to %s again", m.name, m.cut)
		if m.cut = ""; m.down {
			m.die()
		}
	}
}

// within are the CAPI clusters of a management cluster.
func (w *world) within(namespace string) []client.Object {
	return slices.DeleteFunc(w.server.Objects(clusterGK), func(object client.Object) bool { return object.GetNamespace() != namespace })
}

// restore has a management cluster be what it was when it was backed up. Its kube-system is the same.
func (w *world) restore(m *manager) {
	w.say("the management cluster of %s is restored from its backup", m.name)
	kept := w.snapshots[m.works]
	for _, object := range w.within(m.works) {
		uid := object.GetUID()
		spared := w.spared[uid]
		delete(w.spared, uid)
		if !slices.ContainsFunc(kept, func(k client.Object) bool { return k.GetUID() == uid }) {
			w.lost[uid] = true // Nobody knows it any more.
			w.silent[uid] = spared
			w.server.Vanish(w.server.KeyOf(object))
		}
	}
	for _, object := range kept {
		delete(w.silent, object.GetUID())
		delete(w.removed, object.GetUID()) // Nobody knows that any more.
		w.server.Restore(object)
	}
	if w.Pick("process", "goes on", "starts again") == "starts again" {
		m.die()
	}
}

// storiesOfPartitions have two management clusters and one Rancher.
func storiesOfPartitions() map[string]story {
	one := simClusters[0]
	return map[string]story{
		"Rancher away and its cluster unseen": {kinds: onlyV3, remote: true, tell: func(w *world) {
			m := w.managers[0]
			m.ago = maps.Clone(recordsUnseen)
			m.die()
			m.cut = rancherSide
			w.deletesIt(one)
			w.happens("CAPI releases")
			m.sees(clusterGK)
			m.looks(one)
		}},
		"management cluster away and its cluster unseen": {kinds: onlyV3, remote: true, tell: func(w *world) {
			m := w.managers[0]
			m.ago = map[schema.GroupKind]int{clusterGK: unseen}
			m.die()
			m.cut = homeSide
			w.removes(one)
			m.sees(v3GK)
			m.looks(one)
		}},
		"restored without it": {kinds: onlyV3, remote: true, tell: func(w *world) {
			w.snapshots["a"] = nil
			w.restore(w.managers[0])
		}},
	}
}

// checkOrigin is what must hold for each write where there are two management clusters: it is to what
// belongs to the one of the process.
func (w *world) checkOrigin(key simulation.Key, before, after client.Object) {
	if !w.remote {
		return
	}
	if key.Kind == clusterGK {
		if key.Namespace != w.working.works {
			w.fail("it writes to %s of the other management cluster", key)
		}
		return
	}
	for _, object := range []client.Object{before, after} {
		if object != nil && object.GetLabels()[archelonv1.ManagementClusterLabel] != string(w.working.origin) {
			w.fail("it writes to %s of the other management cluster", key)
		}
	}
}
