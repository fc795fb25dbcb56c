package importer_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// The gate is flipped, and flipped back, while somebody takes labels off Rancher clusters, or deletes them in Rancher:
// no Rancher cluster is replaced, and no CAPI cluster gets a second one.
func TestSimulationOfAFlippedGate(t *testing.T) {
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
				first := w.ownRecords()
				for range rapid.IntRange(5, 40).Draw(t, "steps") {
					w.flipStep() //nolint:contextcheck // processes have lives of their own
					w.judge()
				}
				w.checkEnd() //nolint:contextcheck // processes have lives of their own
				w.checkSticky(first)
				w.judge()
				w.stop()
				walked()
			})
		})
	}
}

// flipStep does one thing that can happen to clusters while the gate is flipped.
func (w *world) flipStep() {
	switch what := w.Pick("what", "flip", "person", "person", "rancher", "rancher", "rancher", "deliver", "deliver", "deliver",
		"work", "work", "work", "work", "job", "later", "restart", "fault", "fault", "a while", "plan"); what {
	case "flip":
		for _, m := range w.managers {
			m.kind = map[string]string{"v1": "v3", "v3": "v1"}[m.kind]
			w.say("%s starts again, and new imports are %s", m.name, m.kind)
			m.die()
		}
	case "person":
		w.person()
	case "fault":
		w.Disturb() // Without what users do meanwhile: an un-import is no replacement.
	default:
		w.do(what)
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

// ownRecords are the Rancher clusters by the UIDs of their CAPI clusters.
func (w *world) ownRecords() map[types.UID]types.UID {
	own := map[types.UID]types.UID{}
	for _, cluster := range w.clusters() {
		for _, record := range w.recordsOf(cluster.UID) {
			own[cluster.UID] = w.server.Peek(record).GetUID()
		}
	}
	return own
}

// checkSticky is what must hold in the end: each cluster has the Rancher cluster that it had at first, unless that was
// deleted in Rancher.
func (w *world) checkSticky(first map[types.UID]types.UID) {
	now := w.ownRecords()
	for _, cluster := range w.clusters() {
		records := w.recordsOf(cluster.UID)
		_, keptOut := cluster.Annotations[archelonv1.ImportedAnnotation]
		if len(records) == 0 && (w.removed[cluster.UID] || w.vandals && keptOut) {
			continue // What Rancher deletes without its label looks as if somebody had deleted it. A person has to decide.
		}
		if len(records) != 1 || now[cluster.UID] != first[cluster.UID] {
			w.fail("%s has %s, and not the Rancher cluster that it had at first", describe(cluster), fmt.Sprint(records))
		}
	}
}
