package importer_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// What happens seldom, and what must hold then.

// actSeldom does what happens seldom.
func (w *world) actSeldom(what string) {
	switch what {
	case "a while":
		w.say("a while passes in which nothing goes wrong")
		faulty := w.Faulty
		w.Faulty = ""
		if w.webhookDown || slices.ContainsFunc(w.managers, func(m *manager) bool { return m.cut != "" }) {
			w.round()
		} else {
			for steps := 10 + w.Index("while", 90); steps > 0 && w.wrong == "" && w.goOn(); steps-- {
				continue
			}
		}
		w.Faulty = faulty
	case "webhook":
		w.webhookDown = !w.webhookDown
		w.say("Rancher's webhook does not answer: %t", w.webhookDown)
	case "plan":
		if m := w.someManager(); w.Faulty == "" && !w.webhookDown && m.cut == "" && w.Pick("plan", "made", "not asked for") == "made" {
			w.checkPlan(m, planRuns)
		}
	case "relist":
		m := w.someManager()
		if behind := m.kindsBehind(); len(behind) > 0 {
			kind := behind[w.Index("kind", len(behind))]
			w.say("%s lists each %s in %s anew", m.name, kind.Kind, kind.Group)
			m.process.Relist(w.ctx, kind)
		}
	}
}

// refusal is why the API server refuses a write, nil if it does not.
func (m *manager) refusal(verb string, key simulation.Key, answered bool) error {
	w := m.w
	switch {
	case answered:
	case w.befalls != nil:
		return w.befalls(verb, key)
	case w.Faulty == "conflict":
		w.Faulty = ""
		return apierrors.NewConflict(resourceOf(key), key.Name, errors.New("a webhook refuses it with this code"))
	case w.webhookDown && (key.Kind == v1GK || key.Kind == v3GK && verb != "delete"):
		m.refused = true
		return apierrors.NewInternalError(errors.New("failed calling webhook: rancher.cattle.io"))
	}
	return nil
}

func resourceOf(key simulation.Key) schema.GroupResource {
	return schema.GroupResource{Group: key.Kind.Group, Resource: strings.ToLower(key.Kind.Kind) + "s"}
}

// delete deletes a CAPI cluster. One that nobody but a manager holds may have been asked to go a moment before it was
// held: it vanishes with the finalizer.
func (w *world) delete(cluster *clusterv1.Cluster) {
	if w.remote && !slices.Contains(cluster.Finalizers, finalizer) {
		w.lost[cluster.UID] = true // It was restored, and is gone before it was known again.
	}
	key, late := w.server.KeyOf(cluster), slices.Equal(cluster.Finalizers, []string{finalizer}) && cluster.DeletionTimestamp == nil
	if !late || w.Pick("asked to go", "now", "before it was held") == "now" {
		w.server.Remove(key)
		return
	}
	w.say("   which was asked to go before it was held")
	seen := slices.ContainsFunc(w.managers, func(m *manager) bool {
		return m.owns(key.Namespace) && m.control.Holding(key.NamespacedName) == cluster.UID
	})
	if cluster.Spec.Paused != nil || w.remote || !seen {
		// It looks like one that is moved, or like a backup that does not have it; or the process has just
		// started, and has yet to look at it.
		w.lost[cluster.UID] = true
	} else {
		w.vanished[cluster.UID] = true
	}
	w.server.Vanish(key)
}

// loseVanished has nobody remember those any more that have vanished: only the process remembers that has seen
// them last, and for a moment.
func (w *world) loseVanished() {
	for uid := range w.vanished {
		w.lost[uid] = true
	}
}

// loses has Rancher notice that an agent is gone.
func (w *world) loses(cluster *managementv3.Cluster) func() {
	return func() {
		for _, s := range w.sites {
			if s.session == cluster.Name {
				s.session = ""
			}
		}
		w.server.Put(w.condition(cluster, "Connected", false))
	}
}

// cleanUp ends Rancher's clean-up of a workload cluster. It removes the agent that it finds there: it must not be that
// of the next Rancher cluster of this CAPI cluster.
func (w *world) cleanUp(key types.NamespacedName) {
	s := w.sites[key]
	next, ok := w.object(v3GK, "", s.agent.cluster).(*managementv3.Cluster)
	if ok && s.agent.exists && next.UID == s.installedFor && next.UID != s.cleanup && w.created[next.UID] == w.created[s.cleanup] &&
		next.DeletionTimestamp == nil {
		w.fail("the clean-up for an earlier Rancher cluster removes the agent of %s in the workload cluster of %s", next.Name, key)
	}
	s.agent, s.cleanup, s.session = installed{}, "", ""
	w.changes++
}

// checkDeleted is what must hold for the deletion of a Rancher cluster: no CAPI cluster goes with it, and Rancher does
// not clean up the workload cluster over and over while its webhook may be about to come back.
func (w *world) checkDeleted(verb string, key simulation.Key, before client.Object, owner types.UID) {
	if verb != "delete" || before.GetDeletionTimestamp() != nil {
		return
	}
	if key.Kind == v1GK {
		delete(w.removed, owner) // What was deleted in Rancher was made from it, and goes with it.
		if twin := w.cluster(key.NamespacedName); twin != nil && w.working.there[twin.UID] {
			w.fail("it deletes %s, and Rancher will delete the CAPI cluster of its name with it", key)
		}
	}
	if w.silent[owner] {
		w.fail("it deletes %s, whose CAPI cluster nobody has deleted", key)
	}
	if !w.working.refused {
		return
	}
	for _, cluster := range w.clusters() {
		if at := cluster.DeletionTimestamp; cluster.UID == owner && at != nil && w.clock.Now().Sub(at.Time) < 30*time.Second {
			w.fail("it deletes %s although the webhook has been away for a moment only: Rancher makes one Job for the clean-up after the other", key)
		}
	}
}

// checkTitle is what must hold for the display name of a new Rancher cluster: a process knows which ones it has given.
func (w *world) checkTitle(key simulation.Key, object client.Object) {
	cluster, ok := object.(*managementv3.Cluster)
	if !ok {
		return
	}
	name, now := cluster.Spec.DisplayName, w.clock.Now()
	given, ok := w.working.titles[name]
	if other := w.server.Peek(given.record); ok && other != nil && now.Sub(given.at) < 2*time.Second &&
		other.GetLabels()[uidLabel] != object.GetLabels()[uidLabel] {
		w.fail("%s creates %s with the display name %q, which it has just given to %s", w.working.name, key, name, given.record)
	}
	w.working.titles[name] = title{record: key, at: now}
}

// checkNamed is what must hold for the first agent of a Rancher cluster: no older one has its display name.
func (w *world) checkNamed(cluster *managementv3.Cluster) {
	if cluster.Annotations["objectset.rio.cattle.io/owner-name"] != "" || conditionOf(cluster, "Waiting") || conditionOf(cluster, "Connected") {
		return
	}
	for object := range w.server.All(v3GK) {
		other, ok := object.(*managementv3.Cluster)
		if !ok || other.UID == cluster.UID || other.DeletionTimestamp != nil || age(other) > age(cluster) ||
			other.Annotations["objectset.rio.cattle.io/owner-name"] != "" || w.created[other.UID] == w.created[cluster.UID] {
			continue
		}
		if other.Spec.DisplayName == cluster.Spec.DisplayName {
			w.fail("it installs the agent of %s, and the older %s has the display name %q, too", cluster.Name, other.Name, other.Spec.DisplayName)
		}
	}
}

// age is the place of an object among all that were ever created.
func age(object client.Object) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(object.GetUID()), "uid-"))
	return n
}

// checkAbandoned is what must hold for a Rancher cluster that is left to people: another CAPI cluster would go with it.
func (w *world) checkAbandoned(key simulation.Key, before, after client.Object) {
	if before.GetLabels()[uidLabel] == "" || after == nil || after.GetLabels()[uidLabel] != "" {
		return
	}
	if key.Kind != v1GK || key.NamespacedName != simTwin {
		w.fail("it leaves %s to nobody", key)
	}
	w.lost[w.created[before.GetUID()]] = true
}

// heldByTwin reports whether a CAPI cluster has to stay in Rancher because another one would
// be deleted with its record.
func (w *world) heldByTwin(cluster *clusterv1.Cluster) bool {
	return w.twins && w.cluster(simTwin) != nil && conditions.GetReason(cluster, archelonv1.RancherImportedCondition) == archelonv1.RancherClusterNameTakenReason
}

// round has everybody do something. It ends although runs may fail over and over.
func (w *world) round() {
	for _, m := range w.managers {
		for m.behind() > 0 && w.wrong == "" {
			w.deliver(m, 0)
		}
		for range m.process.Queued() {
			if !m.down {
				w.work(m, 0)
			}
		}
		for _, key := range m.control.RunningJobs() {
			w.job(m, key)
		}
	}
	w.react()
}

// leaving returns a CAPI cluster that is being deleted and has yet to leave Rancher, nil if there is none.
func (w *world) leaving() *clusterv1.Cluster {
	for _, cluster := range w.clusters() {
		if cluster.DeletionTimestamp != nil && slices.Contains(cluster.Finalizers, finalizer) {
			return cluster
		}
	}
	return nil
}

// checkLeaving is what must hold while Rancher's webhook is away: CAPI clusters leave all the same.
func (w *world) checkLeaving() {
	if !w.webhookDown {
		return
	}
	w.Faulty, w.unsettled = "", false
	w.heal()
	for tries := 5; tries > 0 && w.leaving() != nil; tries-- {
		for range 5 {
			w.round()
		}
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		for _, m := range w.managers {
			m.process.Later()
		}
	}
	if cluster := w.leaving(); cluster != nil && !w.vandals && !w.twins {
		w.fail("%s does not leave while Rancher's webhook is away: %v", describe(cluster), cluster.Finalizers)
	}
	w.say("--- Rancher's webhook is back ---")
	w.webhookDown = false
}
