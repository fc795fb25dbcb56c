package importer_test

import (
	"errors"
	"maps"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

var (
	bothKinds = []string{"v1", "v3"}
	onlyV1    = []string{"v1"}
	onlyV3    = []string{"v3"}
	// unseen is for caches that have yet to show anything of some kinds.
	unseen        = 1000
	recordsUnseen = map[schema.GroupKind]int{v1GK: unseen, v3GK: unseen}
)

// stories are those of testdata/races.yaml that schedules at random find too seldom, or with luck.
func stories() map[string]story {
	one := simClusters[0]
	all := map[string]story{
		"lost answer": {kinds: bothKinds, without: true, tell: func(w *world) {
			w.creates(one, "false")
			w.rests()
			w.changesIt(one, func(c *clusterv1.Cluster) {
				labelled("true")(c)
				c.Status.Initialization.ControlPlaneInitialized = new(false)
			})
			m := w.managers[0]
			m.sees(clusterGK)
			w.interlude = func() {
				w.interlude, w.Faulty = nil, "lost after"
				w.excludes(one)
			}
			w.Faulty = "meanwhile"
			m.looks(one)
			m.process.Deliver(w.ctx, clusterGK)
			m.looks(one)
		}},
		"deletion of a successor": {kinds: onlyV1, tell: func(w *world) {
			record := w.server.KeyOf(w.recordOf(one))
			w.deletesIt(one)
			w.befalls = func(verb string, _ simulation.Key) error {
				if verb == "delete" {
					w.befalls = nil
					w.say("meanwhile %s goes, and somebody else creates another one", record)
					w.server.Vanish(w.server.KeyOf(w.madeFrom(w.server.Get(record))))
					w.server.Vanish(record)
					w.server.Put(&provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name}})
					w.foreign[record] = true
					w.before = w.server.Get(record)
				}
				return nil
			}
			w.rests()
		}},
		"stale claim": {kinds: bothKinds, tell: func(w *world) {
			late := w.frozen(w.managers[0].kind, nil)
			w.removes(one)
			w.rests()
			late.sees(v1GK, v3GK)
			late.looks(one)
		}},
		"stale label": {kinds: bothKinds, tell: func(w *world) {
			w.excludes(one)
			late := w.frozen(w.managers[0].kind, nil)
			w.rests()
			w.changesIt(one, labelled("true"))
			w.rests()
			w.spared[w.cluster(one).UID] = true
			late.sees(v1GK, v3GK)
			late.looks(one)
		}},
		"label taken back": {kinds: bothKinds, tell: func(w *world) {
			record := w.server.KeyOf(w.recordOf(one))
			w.excludes(one)
			w.befalls = func(verb string, key simulation.Key) error {
				if verb == "patch" && key == record {
					w.befalls = nil
					w.changesIt(one, labelled("true"))
					w.spared[w.cluster(one).UID] = true
				}
				return nil
			}
			w.rests()
		}},
		"conflict on deletion": {kinds: bothKinds, tell: func(w *world) {
			record := w.server.KeyOf(w.recordOf(one))
			w.deletesIt(one)
			w.happens("CAPI releases")
			w.once("delete", record.Kind, apierrors.NewConflict(resourceOf(record), record.Name, errors.New("a webhook refuses it")))
		}},
		"unseen CAPI cluster": {kinds: bothKinds, tell: func(w *world) {
			late := w.frozen(w.managers[0].kind, map[schema.GroupKind]int{clusterGK: unseen})
			w.removes(one)
			late.sees(v1GK, v3GK)
			late.looks(one)
		}},
		"unseen record": {kinds: bothKinds, tell: func(w *world) {
			m := w.managers[0]
			m.ago = maps.Clone(recordsUnseen)
			m.die()
			w.deletesIt(one)
			m.sees(clusterGK)
			m.looks(one)
		}},
		"unnamed record": {kinds: onlyV3, tell: func(w *world) {
			w.changesIt(one, func(c *clusterv1.Cluster) { delete(c.Annotations, archelonv1.RecordAnnotation) })
			m := w.managers[0]
			m.ago = maps.Clone(recordsUnseen)
			m.die()
			m.looks(one)
		}},
		"lost repair": {kinds: bothKinds, tell: func(w *world) {
			w.say("the agent of %s is deleted", one)
			w.sites[one].agent = installed{}
		}},
		"live agent": {kinds: bothKinds, tell: func(w *world) {
			w.say("the agent of the neighbour is installed in the workload cluster of %s", one)
			w.sites[one].agent = installed{exists: true, credentials: true, features: true, server: simURL, token: "neighbour", cluster: "c-vvvvv"}
		}},
		"frozen instance": {kinds: onlyV3, without: true, divided: true, tell: frozenInstance},
	}
	for _, more := range []map[string]story{storiesOfDeletions(), storiesOfNames(), storiesOfKinds(), storiesOfRemovals(), storiesOfPartitions()} {
		maps.Copy(all, more)
	}
	return all
}

func storiesOfDeletions() map[string]story {
	one := simClusters[0]
	return map[string]story{
		"twin": {kinds: onlyV1, twins: true, tell: func(w *world) {
			w.creates(simTwin, "false")
			w.rests()
			w.deletesIt(one)
		}},
		"twin of one that vanished": {kinds: onlyV1, twins: true, tell: func(w *world) {
			w.creates(simTwin, "false")
			w.rests()
			w.vanishes(one)
		}},
		"webhook away for a moment": {kinds: bothKinds, tell: func(w *world) {
			w.webhookDown = true
			w.deletesIt(one)
			w.round()
			w.webhookDown = false
		}},
		"webhook away": {kinds: bothKinds, tell: func(w *world) {
			w.webhookDown = true
			w.deletesIt(one)
		}},
		"webhook away and unseen": {kinds: onlyV1, tell: func(w *world) {
			w.vandals, w.webhookDown = true, true
			record := w.server.KeyOf(w.recordOf(one))
			w.strips(one, ownedLabel)
			w.deletesIt(one)
			w.checkLeaving()
			w.rests()
			if w.server.Get(record) != nil {
				w.fail("%s is left, and nobody knows it any more", record)
			}
		}},
		"clean-up that begins": {kinds: onlyV3, tell: func(w *world) {
			w.withholds("for "+w.recordOf(one).GetName(), "off "+w.recordOf(one).GetName(), " connects")
			w.excludes(one)
			w.rests()
			w.changesIt(one, labelled("true"))
			w.rests()
			w.withheld = nil
		}},
		"clean-up under way": {kinds: bothKinds, tell: func(w *world) {
			w.withholds("the clean-up in")
			w.excludes(one)
			w.rests()
			w.changesIt(one, labelled("true"))
			w.rests()
			w.withheld = nil
		}},
		"vanished": {kinds: bothKinds, tell: func(w *world) { w.vanishes(one) }},
		"vanished before its record was seen": {kinds: bothKinds, without: true, tell: func(w *world) {
			w.creates(one, "true")
			m := w.managers[0]
			m.sees(clusterGK)
			m.looks(one)
			w.vanishes(one)
			m.sees(clusterGK)
			m.looks(one)
			m.sees(v1GK, v3GK)
			m.looks(one)
		}},
	}
}

func storiesOfNames() map[string]story {
	one, two := simClusters[0], simClusters[1]
	return map[string]story{
		"two of one display name": {kinds: onlyV3, without: true, tell: func(w *world) {
			w.creates(one, "true")
			w.creates(two, "true")
			m := w.managers[0]
			m.sees(clusterGK)
			m.looks(one)
			m.looks(two)
		}},
		"two of one display name by two processes": {kinds: onlyV3, without: true, tell: func(w *world) {
			w.creates(one, "true")
			w.creates(two, "true")
			m, late := w.managers[0], w.frozen("v3", nil)
			m.sees(clusterGK)
			m.looks(one)
			late.looks(two)
		}},
		"named by mistake": {kinds: onlyV3, tell: func(w *world) {
			first, late := w.server.KeyOf(w.recordOf(one)), w.frozen("v3", nil)
			w.excludes(one)
			w.rests()
			w.changesIt(one, labelled("true"))
			w.rests()
			late.sees(clusterGK)
			late.looks(one)
			late.sees(clusterGK)
			for late.process.Cache.Peek(first) != nil {
				late.process.Deliver(w.ctx, v3GK)
			}
			late.looks(one)
		}},
	}
}

// frozenInstance is about to choose another name for a Rancher cluster, when its namespace is given to another
// instance, and the first name is free again.
func frozenInstance(w *world) {
	key, first, second := simClusters[1], w.managers[0], w.managers[1]
	w.creates(key, "true")
	first.sees(clusterGK)
	var taken simulation.Key
	w.befalls = func(verb string, key simulation.Key) error {
		if verb == "create" {
			taken = key
			w.say("somebody else creates %s", key)
			w.server.Put(&managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: key.Name}})
			w.foreign[key] = true
		} else if taken.Name != "" {
			w.befalls = nil
			w.say("%s freezes, and %s gets its namespace; %s is gone", first.name, second.name, taken)
			w.server.Remove(taken)
			delete(w.foreign, taken)
			first.works, second.works = "a", "c,b"
			second.die()
			second.looks(simClusters[1])
		}
		return nil
	}
	first.looks(key)
	second.sees(clusterGK)
	second.looks(key)
	first.die()
}

func storiesOfKinds() map[string]story {
	one := simClusters[0]
	other := map[string]string{"v1": "v3", "v3": "v1"}
	flip := func(w *world) {
		m := w.managers[0]
		m.kind = other[m.kind]
		m.die()
	}
	return map[string]story{
		"a late process with the other gate": {kinds: bothKinds, tell: func(w *world) {
			late := w.frozen(other[w.managers[0].kind], nil)
			w.removes(one)
			w.rests()
			late.sees(clusterGK)
			late.looks(one)
			late.sees(clusterGK)
			late.looks(one)
		}},
		"deleted in Rancher while another one is named": {kinds: bothKinds, tell: func(w *world) {
			m := w.managers[0]
			w.changesIt(one, func(c *clusterv1.Cluster) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, archelonv1.RecordAnnotation, "v3/c-zzzzz")
			})
			w.removes(one)
			m.sees(clusterGK, v1GK, v3GK)
			m.looks(one)
		}},
		"named, not created, and the gate is flipped": {kinds: bothKinds, without: true, tell: func(w *world) {
			w.creates(one, "true")
			m := w.managers[0]
			m.sees(clusterGK)
			w.Faulty = "crash after"
			m.looks(one)
			flip(w)
			w.rests()
			if records := w.recordsOf(w.cluster(one).UID); len(records) != 1 {
				w.fail("%s has %v, and not one Rancher cluster", one, records)
			}
		}},
		"former name": {kinds: onlyV1, tell: func(w *world) {
			m := w.managers[0]
			delete(w.spared, w.cluster(one).UID)
			w.changesIt(one, func(c *clusterv1.Cluster) { c.Labels[importLabel] = "false" })
			m.sees(clusterGK)
			m.looks(one)
			w.happens("Rancher deletes c-m-")
			w.happens("Rancher releases v1 Cluster")
			w.changesIt(one, func(c *clusterv1.Cluster) { c.Labels[importLabel] = "true" })
			m.ago = map[schema.GroupKind]int{v3GK: 1}
			m.die()
			m.looks(one)
			w.rests()
			if records := w.recordsOf(w.cluster(one).UID); len(records) != 1 {
				w.fail("%s has %v, and not one Rancher cluster", one, records)
			}
		}},
		"without labels": {kinds: bothKinds, tell: func(w *world) {
			w.vandals = true
			w.strips(one, ownedLabel)
			flip(w)
		}},
	}
}

func storiesOfRemovals() map[string]story {
	one, two := simClusters[0], simClusters[1]
	return map[string]story{
		"crash when it is noted": {kinds: bothKinds, tell: func(w *world) {
			w.removes(one)
			m := w.managers[0]
			m.sees(v1GK, v3GK)
			w.Faulty = "crash after"
			m.looks(one)
		}},
		"namesake releases it": {kinds: onlyV3, tell: func(w *world) {
			w.vandals = true
			w.strips(one, archelonv1.OwnerNamespaceLabel)
			w.removes(one)
			m := w.managers[0]
			m.sees(v3GK)
			m.looks(two)
		}},
		"hidden, and what was made from it": {kinds: onlyV1, tell: func(w *world) {
			w.vandals = true
			record := w.recordOf(one)
			w.strips(one, ownedLabel)
			w.say("somebody deletes the v3 Cluster of %s in Rancher", one)
			delete(w.spared, w.cluster(one).UID)
			w.server.Remove(w.server.KeyOf(w.madeFrom(record)))
		}},
		"before its name was seen": {kinds: bothKinds, without: true, tell: func(w *world) {
			w.creates(one, "true")
			late := w.frozen(w.managers[0].kind, nil)
			w.rests()
			w.removes(one)
			late.sees(v1GK, v3GK)
			late.looks(one)
		}},
		"predecessor releases it": {kinds: bothKinds, tell: func(w *world) {
			late := w.frozen(w.managers[0].kind, nil)
			w.deletesIt(one)
			w.rests()
			w.creates(one, "true")
			w.changesIt(one, func(c *clusterv1.Cluster) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, archelonv1.DisplayNameAnnotation, "next")
			})
			w.rests()
			w.removes(one)
			late.sees(v1GK, v3GK)
			late.looks(one)
		}},
		"hidden record": {kinds: bothKinds, tell: func(w *world) {
			w.vandals = true
			w.changesIt(one, func(c *clusterv1.Cluster) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, archelonv1.ImportedAnnotation, "true")
			})
			w.strips(one, ownedLabel)
			w.rests()
			if _, owned := w.recordOf(one).GetLabels()[ownedLabel]; !owned {
				w.fail("%s is taken for one that was deleted in Rancher", w.server.KeyOf(w.recordOf(one)))
			}
		}},
	}
}
