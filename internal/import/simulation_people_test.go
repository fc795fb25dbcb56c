package importer_test

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// What can happen, some of it more often.
var happenings = []string{
	"user", "user", "user", "capi", "admin", "agent", "rancher", "rancher", "rancher", "rancher",
	"deliver", "deliver", "deliver", "deliver", "work", "work", "work", "work", "job", "later", "restart",
	"fault", "fault", "fault", "hand over", "a while", "webhook", "relist", "plan",
}

// What a user does, and somebody in Rancher.
var (
	userDoes = []string{
		"include", "include", "exclude", "unlabel", "delete", "delete", "pause", "resume", "resume", "permit", "permit", "forbid",
		"describe", "env", "team", "namespace",
	}
	adminDoes = []string{"delete", "delete", "touch"}
)

// act does one thing that can happen.
func (w *world) act() { w.do(w.Pick("what", happenings...)) }

// do has something happen.
func (w *world) do(what string) {
	switch what {
	case "user":
		w.user(w.someCluster())
	case "capi":
		w.capi(w.someCluster())
	case "admin":
		w.admin()
	case "agent":
		w.loseAgent(w.someCluster())
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
			w.say("%s works in a workload cluster", m.name)
			w.job(m, running[w.Index("job", len(running))])
		}
	case "later":
		w.later()
	case "restart":
		m := w.someManager()
		w.say("%s is killed and starts again", m.name)
		m.die()
	case "hand over":
		w.handOver()
	case "fault":
		w.Disturb("meanwhile", "meanwhile", "meanwhile", "conflict", "conflict")
	default:
		w.actSeldom(what)
	}
}

// later has a minute pass.
func (w *world) later() {
	w.say("a minute passes")
	w.loseVanished()
	w.clock.SetTime(w.clock.Now().Add(60e9))
	for _, m := range w.managers {
		m.process.Later()
	}
}

// handOver gives namespace b to the other instance. What the one has sent before has arrived then, or never does.
func (w *world) handOver() {
	if !w.divided {
		return
	}
	one, two := w.managers[0], w.managers[1]
	one.works, two.works = "a", "c,b"
	if w.Pick("to", "one", "two") == "one" {
		one.works, two.works = "a,b", "c"
	}
	w.say("the instances divide the namespaces: %s has %s, %s has %s", one.name, one.works, two.name, two.works)
	one.die()
	two.die()
}

func (w *world) someManager() *manager { return w.managers[w.Index("manager", len(w.managers))] }

func (w *world) someCluster() types.NamespacedName {
	return w.keys[w.Index("cluster", len(w.keys))]
}

func (w *world) workSome(m *manager) {
	if n := m.process.Queued(); n > 0 && !m.down {
		w.say("%s reconciles", m.name)
		w.work(m, w.Index("request", n))
	}
}

func (w *world) rancher() {
	if reactions := w.reactions(); len(reactions) > 0 {
		next := reactions[w.Index("reaction", len(reactions))]
		w.say("%s", next.what)
		next.do()
	}
}

// meanwhile has others do something between the reads of a run and its write.
func (w *world) meanwhile(m *manager) {
	if w.interlude != nil {
		w.interlude()
		return
	}
	switch w.Pick("meanwhile", "user", "user", "capi", "admin", "rancher", "rancher", "other") {
	case "user":
		w.user(w.someCluster())
	case "capi":
		w.capi(w.someCluster())
	case "admin":
		w.admin()
	case "rancher":
		for range 1 + w.Index("reactions", 3) {
			w.rancher()
		}
	case "other":
		if other := w.someManager(); other != m {
			for range 1 + w.Index("runs", 4) {
				for other.behind() > 0 && w.Pick("sees", "yes", "no") == "yes" {
					w.deliver(other, 0)
				}
				w.workSome(other)
			}
		}
	}
}

// cluster returns a copy of a CAPI cluster, nil if it is not there.
func (w *world) cluster(key types.NamespacedName) *clusterv1.Cluster {
	cluster, _ := w.server.Get(keyOf(clusterGK, key.Namespace, key.Name)).(*clusterv1.Cluster)
	return cluster
}

// user does what the owner of a CAPI cluster does.
func (w *world) user(key types.NamespacedName) {
	cluster := w.cluster(key)
	if cluster == nil {
		w.create(key)
		return
	}
	can := userDoes
	if w.sites[key].agent.stranger() {
		can = append(slices.Clip(can), "approve", "approve")
	}
	if w.vandals && !w.vandalized {
		can = append(slices.Clip(can), "forge", "forget")
	}
	does := w.Pick("does", can...)
	w.say("the user of %s: %s", key, does)
	note := func(name, value string) { metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, name, value) }
	switch does {
	case "include":
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, importLabel, "true")
	case "exclude":
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, importLabel, "false")
		delete(w.spared, cluster.UID)
		delete(w.removed, cluster.UID)
	case "unlabel":
		delete(cluster.Labels, importLabel)
		if w.selected(cluster) == "false" {
			delete(w.spared, cluster.UID) // The label of its namespace takes it out.
			delete(w.removed, cluster.UID)
		}
	case "delete":
		w.backups[key] = cluster.DeepCopy()
		delete(w.spared, cluster.UID)
		w.delete(cluster)
		return
	case "pause":
		cluster.Spec.Paused = new(true)
	case "resume":
		cluster.Spec.Paused = nil
	case "permit":
		if _, ok := cluster.Annotations[archelonv1.ImportedAnnotation]; ok {
			delete(cluster.Annotations, archelonv1.ImportedAnnotation)
			delete(w.removed, cluster.UID)
		}
	case "forbid":
		note(archelonv1.ImportedAnnotation, "true")
	case "describe":
		note(archelonv1.DescriptionAnnotation, w.Pick("description", "one", "two"))
	case "env":
		note(archelonv1.AgentEnvAnnotation, w.Pick("env", "", "A: b", "A: c"))
	case "approve":
		of := w.Pick("of", "other.example.com", "c-vvvvv")
		w.approved[key] = append(w.approved[key], of)
		note(archelonv1.TakeOverAgentAnnotation, of)
	case "team":
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, "team", w.Pick("team", "red", "blue"))
	case "forge":
		w.vandalized = true
		note(archelonv1.RecordAnnotation, w.Pick("record",
			"v3/c-vvvvv", "v1/prod", "v1/prod-capi", "v3/c-bbbbc", "v3/c-bbbbd", "v1/other-capi", "?"))
	case "forget":
		w.vandalized = true
		delete(cluster.Annotations, archelonv1.RecordAnnotation)
	case "namespace":
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
		if value := w.Pick("label", "", "true", "false"); value != "" {
			namespace.Labels = map[string]string{importLabel: value}
		}
		if w.spared = map[types.UID]bool{}; namespace.Labels[importLabel] == "false" {
			w.removed = map[types.UID]bool{}
		}
		w.server.Put(namespace)
		return
	}
	w.server.Put(cluster)
}

func (w *world) create(key types.NamespacedName) {
	w.loseVanished() // Whoever comes after one of those gets a Rancher cluster of its own.
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if backup := w.backups[key]; backup != nil && w.Pick("create", "new", "restored") == "restored" {
		// A backup tool and clusterctl create it anew, with what was written on it.
		cluster.Labels, cluster.Annotations = backup.Labels, backup.Annotations
		cluster.Spec.Paused = backup.Spec.Paused
		w.say("the CAPI cluster %s is restored", key)
	} else {
		if label := w.Pick("label", "true", "true", "true", "", "false"); label != "" {
			cluster.Labels = map[string]string{importLabel: label}
		}
		w.say("the user creates CAPI cluster %s, labelled %v", key, cluster.Labels)
	}
	cluster.Status.Initialization.ControlPlaneInitialized = new(w.Pick("control plane", "up", "up", "down") == "up")
	w.server.Put(cluster)
	if created := w.cluster(key); cluster.Labels[importLabel] != "false" {
		w.spared[created.UID] = true
	}
}

// capi does what Cluster API and clusterctl do.
func (w *world) capi(key types.NamespacedName) {
	cluster := w.cluster(key)
	if cluster == nil {
		return
	}
	switch w.Pick("capi", "up", "up", "down", "move") {
	case "up":
		w.say("the control plane of %s comes up", key)
		cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	case "down":
		w.say("the control plane of %s goes down", key)
		cluster.Status.Initialization.ControlPlaneInitialized = new(false)
	case "move":
		// clusterctl moves it away: it is paused, and its finalizers are taken off.
		w.say("clusterctl moves %s away", key)
		cluster.Spec.Paused = new(true)
		w.server.Put(cluster)
		w.backups[key] = cluster.DeepCopy()
		cluster.Finalizers = nil
		w.lost[cluster.UID] = true
		delete(w.spared, cluster.UID)
		w.server.Put(cluster)
		w.server.Remove(w.server.KeyOf(cluster))
		return
	}
	w.server.Put(cluster)
}

// admin does what somebody does in Rancher.
func (w *world) admin() {
	objects := append(w.server.Objects(v3GK), w.server.Objects(v1GK)...)
	if len(objects) == 0 {
		return
	}
	object := objects[w.Index("Rancher cluster", len(objects))]
	key := w.server.KeyOf(object)
	can := adminDoes
	if w.vandals && !w.vandalized {
		can = append(slices.Clip(can), "unlabel", "disown")
	}
	switch does := w.Pick("admin", can...); does {
	case "delete":
		if object.GetDeletionTimestamp() != nil {
			return
		}
		w.say("somebody deletes %s in Rancher", key)
		owner := w.created[object.GetUID()]
		// Released already, because the CAPI cluster was to leave and has come back since: nothing
		// tells this deletion from that.
		released := !w.spared[owner] && !slices.Contains(object.GetFinalizers(), finalizer)
		delete(w.spared, owner)
		for _, cluster := range w.clusters() {
			restored := w.remote && cluster.Annotations[archelonv1.RecordAnnotation] == "" // It has yet to learn which one it has.
			if cluster.UID == owner && w.selected(cluster) != "false" && !w.vandals && !restored && !released {
				w.removed[owner] = true
			}
		}
		delete(w.foreign, key) // Whoever comes after it has the name.
		w.server.Remove(key)
	default:
		w.say("somebody changes %s in Rancher: %s", key, does)
		labels := object.GetLabels()
		switch does {
		case "unlabel":
			w.vandalized = true
			delete(labels, ownedLabel)
		case "disown":
			w.vandalized = true
			delete(labels, uidLabel)
		case "touch":
			metav1.SetMetaDataLabel(&metav1.ObjectMeta{Labels: labels}, "touched", w.Pick("touched", "a", "b"))
		}
		object.SetLabels(labels)
		w.server.Put(object)
	}
}

// loseAgent does what happens in workload clusters.
func (w *world) loseAgent(key types.NamespacedName) {
	s := w.sites[key]
	switch w.Pick("agent", "lost", "lost", "credentials", "of another Rancher", "of a neighbour") {
	case "of another Rancher":
		w.say("another Rancher installs its agent in the workload cluster of %s", key)
		s.agent = installed{exists: true, credentials: true, features: true, server: otherURL, token: "other", cluster: "c-m-other"}
	case "of a neighbour":
		w.say("the agent of the neighbour is installed in the workload cluster of %s", key)
		s.agent = installed{exists: true, credentials: true, features: true, server: simURL, token: "neighbour", cluster: "c-vvvvv"}
	case "lost":
		w.say("the agent in the workload cluster of %s is deleted", key)
		s.agent = installed{}
	case "credentials":
		w.say("the credentials of the agent in the workload cluster of %s are deleted", key)
		s.agent.credentials = false
	}
	w.changes++
}

// records are all Rancher clusters. They must not be changed.
func (w *world) records() iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for _, kind := range []schema.GroupKind{v3GK, v1GK} {
			for object := range w.server.All(kind) {
				if !yield(object) {
					return
				}
			}
		}
	}
}

// recordsOf are the Rancher clusters that were created for a CAPI cluster and stay, but for what Rancher makes of them.
func (w *world) recordsOf(cluster types.UID) []simulation.Key {
	var found []simulation.Key
	for object := range w.records() {
		_, derived := object.GetAnnotations()["objectset.rio.cattle.io/owner-name"]
		if w.created[object.GetUID()] == cluster && object.GetDeletionTimestamp() == nil && !derived {
			found = append(found, w.server.KeyOf(object))
		}
	}
	return slices.Clip(found)
}
