package importer_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Whenever the strategy is changed, and changed back, while somebody takes labels off Rancher clusters: no CAPI cluster
// gets a second one, and in the end each is imported by one of the kind that was chosen last.
func TestSimulationOfASwitch(t *testing.T) {
	ctx := t.Context()
	walked := walking(t)
	unlessSet(t, map[string]string{"rapid.checks": "60", "rapid.seed": "1"})
	for _, kind := range []string{"v3", "v1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(ctx, t, kind)
				w.vandals = rapid.Bool().Draw(t, "labels are taken off")
				w.imported() //nolint:contextcheck // processes have lives of their own
				w.unsettled = true
				for range rapid.IntRange(5, 40).Draw(t, "steps") {
					w.switchStep() //nolint:contextcheck // processes have lives of their own
					w.judge()
				}
				w.checkEnd() //nolint:contextcheck // processes have lives of their own
				w.checkKind()
				w.judge()
				w.stop()
				walked()
			})
		})
	}
}

// switchStep does one thing that can happen to clusters that change over.
func (w *world) switchStep() {
	switch what := w.Pick("what", "switch", "person", "person", "rancher", "rancher", "rancher", "deliver", "deliver", "deliver",
		"work", "work", "work", "work", "job", "later", "restart", "fault", "fault", "a while", "plan"); what {
	case "switch":
		for _, m := range w.managers {
			m.kind = map[string]string{"v1": "v3", "v3": "v1"}[m.kind]
			w.say("%s starts again, and its strategy is %s", m.name, m.kind)
			m.die()
		}
	case "person":
		w.person()
	case "a while", "plan":
		w.actSeldom(what)
	case "rancher":
		w.rancher()
	case "deliver":
		if m := w.someManager(); m.behind() > 0 {
			w.deliver(m, w.Index("event", m.behind()))
		}
	case "work":
		w.workSome(w.someManager())
	case "job":
		m := w.someManager()
		if running := m.control.RunningJobs(); len(running) > 0 {
			w.job(m, running[w.Index("job", len(running))])
		}
	case "later":
		w.later()
	case "restart":
		m := w.someManager()
		w.say("%s is killed and starts again", m.name)
		m.die()
	case "fault":
		w.Disturb()
	}
}

// person does what somebody does in Rancher: takes labels off, or deletes a Rancher cluster.
func (w *world) person() {
	objects := slices.DeleteFunc(append(w.server.Objects(v3GK), w.server.Objects(v1GK)...), func(object client.Object) bool {
		return object.GetDeletionTimestamp() != nil || !slices.Contains(object.GetFinalizers(), finalizer)
	})
	if len(objects) == 0 {
		return
	}
	object := objects[w.Index("Rancher cluster", len(objects))]
	if !w.vandals {
		w.say("somebody deletes %s in Rancher", w.server.KeyOf(object))
		if owner := w.created[object.GetUID()]; len(w.recordsOf(owner)) == 1 {
			w.removed[owner] = true
		}
		w.server.Remove(w.server.KeyOf(object))
		return
	}
	lost := map[string][]string{
		"UID": {uidLabel}, "owned": {ownedLabel}, "both": {ownedLabel, uidLabel},
		"all": {ownedLabel, uidLabel, ownerKey, ownerKey + "-ns"},
	}
	which := w.Pick("labels", "UID", "owned", "both", "all")
	w.say("somebody takes labels off %s: %s", w.server.KeyOf(object), which)
	labels := object.GetLabels()
	for _, key := range lost[which] {
		delete(labels, key)
	}
	object.SetLabels(labels)
	w.server.Put(object)
}

// checkKind is what must hold of clusters that have changed over.
func (w *world) checkKind() {
	for _, cluster := range w.clusters() {
		records := w.recordsOf(cluster.UID)
		_, keptOut := cluster.Annotations[archelonv1.ImportedAnnotation]
		if len(records) == 0 && (w.removed[cluster.UID] || w.vandals && keptOut) {
			continue // What Rancher deletes without its label looks as if somebody had deleted it. A person has to decide.
		}
		want := v1GK
		if w.managers[0].kind == "v3" {
			want = v3GK
		}
		if len(records) != 1 || records[0].Kind != want {
			w.fail("%s has %s, and not one of the kind %s", describe(cluster), fmt.Sprint(records), w.managers[0].kind)
		}
	}
}
