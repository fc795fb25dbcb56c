package importer_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

const (
	finalizer   = "archelon.io/rancher-import"
	ownerKey    = "cluster-api.cattle.io/capi-cluster-owner"
	importLabel = "cluster-api.cattle.io/rancher-auto-import"
)

// Whatever happens in whatever order: no CAPI cluster has two Rancher clusters, nothing of somebody else is touched, no
// live agent is taken over, nothing is imported that was deleted in Rancher; and once faults stop, every deletion ends,
// every cluster that is to be imported is connected, and nothing is written any more.
//
// The schedules are the same each time. make test-simulation walks more of them, and make test-simulation-long others.
// One that fails is told as a story, and kept below testdata to be walked first from then on.
func TestSimulation(t *testing.T) {
	ctx := t.Context()
	walked := walking(t)
	unlessSet(t, map[string]string{"rapid.checks": "100", "rapid.seed": "1"})
	for _, kind := range []string{"v3", "v1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(ctx, t, kind)
				if rapid.IntRange(0, 2).Draw(t, "imported") == 0 {
					w.imported() //nolint:contextcheck // processes have lives of their own
				} else {
					w.start() //nolint:contextcheck // processes have lives of their own
				}
				w.unsettled = true
				for range rapid.IntRange(5, 40).Draw(t, "steps") {
					w.act() //nolint:contextcheck // processes have lives of their own
					w.judge()
				}
				w.checkEnd() //nolint:contextcheck // processes have lives of their own
				w.stop()
				walked()
			})
		})
	}
}

// unlessSet sets flags that nobody has set.
func unlessSet(t *testing.T, values map[string]string) {
	t.Helper()
	flag.Visit(func(f *flag.Flag) { delete(values, f.Name) })
	for name, value := range values {
		before := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, before) })
	}
}

// checkWrite is what must hold for each write.
func (w *world) checkWrite(verb string, key simulation.Key, before, after client.Object) {
	if w.foreign[key] {
		changed := before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion()
		if verb != "create" && changed { // Only creating it tells whether a name is free.
			w.fail("it writes to %s, which is somebody else's", key)
		}
		return
	}
	w.checkOrigin(key, before, after)
	switch key.Kind {
	case clusterGK:
		w.checkCluster(verb, before, after)
	case v1GK, v3GK:
		w.checkRecord(verb, key, before, after)
	default:
		w.fail("it writes to %s", key)
	}
}

// checkCluster is what must hold for each write to a CAPI cluster: it is about our finalizer, our annotations and our
// condition.
func (w *world) checkCluster(verb string, was, is client.Object) {
	before, ok := was.(*clusterv1.Cluster)
	after, ok2 := is.(*clusterv1.Cluster)
	if verb == "create" || verb == "delete" {
		w.fail("it wants to %s a CAPI cluster", verb)
	}
	if !ok || !ok2 || before.UID != after.UID {
		return
	}
	others := func(annotations map[string]string) map[string]string {
		kept := maps.Clone(annotations)
		for _, ours := range []string{
			archelonv1.RecordAnnotation, archelonv1.InstanceAnnotation, archelonv1.ImportedAnnotation,
		} {
			delete(kept, ours)
		}
		return kept
	}
	if !equality.Semantic.DeepEqual(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(others(before.Annotations), others(after.Annotations)) ||
		!slices.Equal(without(before.Finalizers, finalizer), without(after.Finalizers, finalizer)) {
		w.fail("it changes more than it may of CAPI cluster %s", describe(before))
	}
}

// checkRecord is what must hold for each write to a Rancher cluster.
func (w *world) checkRecord(verb string, key simulation.Key, before, after client.Object) {
	if verb == "create" {
		if before == nil && after != nil {
			w.checkCreated(key, after)
		}
		return
	}
	if before == nil {
		return
	}
	owner, ours := w.created[before.GetUID()]
	if !ours {
		w.fail("it wants to %s %s, which was not created by it", verb, key)
		return
	}
	if after != nil && !slices.Equal(without(before.GetFinalizers(), finalizer), without(after.GetFinalizers(), finalizer)) {
		w.fail("it takes a finalizer of Rancher off %s", key)
	}
	if after != nil && before.GetLabels()[uidLabel] == "" && after.GetLabels()[uidLabel] != "" {
		w.created[before.GetUID()] = types.UID(after.GetLabels()[uidLabel]) // It was the record of nobody any more.
	}
	w.checkAbandoned(key, before, after)
	w.checkForm(before, after)
	w.checkDeleted(verb, key, before, owner)
	if verb == "delete" && (after == nil || after.GetDeletionTimestamp() != nil) && before.GetDeletionTimestamp() == nil && w.spared[owner] {
		for _, cluster := range w.clusters() {
			if cluster.UID == owner && (key.Kind == v3GK) == (w.working.kind == "v3") && len(w.recordsOf(owner)) == 0 {
				w.fail("it deletes %s, whose CAPI cluster nobody asked to leave", key)
			}
		}
	}
}

// checkCreated is what must hold for a Rancher cluster that is created.
func (w *world) checkCreated(key simulation.Key, object client.Object) {
	owner := types.UID(object.GetLabels()[uidLabel])
	for _, record := range w.recordsOf(owner) {
		w.fail("it creates %s although the CAPI cluster has %s", key, record)
	}
	if w.removed[owner] {
		w.fail("it creates %s although the Rancher cluster of this CAPI cluster was deleted in Rancher", key)
	}
	w.checkTitle(key, object)
	w.checkForm(nil, object)
	w.created[object.GetUID()] = owner
}

// stop ends what runs beside the test.
func (w *world) stop() {
	for _, m := range slices.Concat(w.managers, w.others) {
		close(m.killed)
		m.end()
	}
}

// checkEnd is what must hold when nothing goes wrong any more.
func (w *world) checkEnd() {
	w.say("--- from here on nothing goes wrong ---")
	for _, cluster := range w.clusters() {
		if cluster.Spec.Paused != nil {
			resumed := cluster.DeepCopy()
			resumed.Spec.Paused = nil
			w.server.Put(resumed)
		}
	}
	w.checkLeaving()
	if !w.rest() {
		w.fail("it does not come to rest")
	}
	w.judge()
	for _, cluster := range w.clusters() {
		w.checkSettled(cluster)
	}
	for object := range w.records() {
		w.checkLeft(object)
	}
	w.judge()
	w.checkSilent()
	w.judge()
}

// checkSilent has all processes start again, and look at everything: they must find nothing to write.
func (w *world) checkSilent() {
	w.say("--- all processes start again ---")
	writes, version := len(w.server.Writes), w.server.Version()
	for _, m := range w.managers {
		if w.compared || w.Index("plan at the end", 3) > 0 {
			m.die()
		} else {
			w.checkPlan(m, planEndRuns)
		}
	}
	if !w.rest() {
		w.fail("it does not come to rest after a restart")
	}
	if w.server.Version() > version {
		w.fail("it writes to what is settled: %v", w.server.Writes[writes:])
	}
}

// selected is what the label of a CAPI cluster, or of its namespace, asks for: "true", "false" or nothing.
func (w *world) selected(cluster *clusterv1.Cluster) string {
	value, ok := cluster.Labels[importLabel]
	if !ok {
		if namespace := w.object(namespaceGK, "", cluster.Namespace); namespace != nil {
			value = namespace.GetLabels()[importLabel]
		}
	}
	return value
}

// checkSettled is what must have become of a CAPI cluster.
func (w *world) checkSettled(cluster *clusterv1.Cluster) {
	name := describe(cluster)
	records := w.recordsOf(cluster.UID)
	condition := conditions.Get(cluster, archelonv1.RancherImportedCondition)
	says := "nothing"
	if condition != nil {
		says = string(condition.Status) + "/" + condition.Reason + " " + condition.Message
	}
	_, forbidden := cluster.Annotations[archelonv1.ImportedAnnotation]
	up := cluster.Status.Initialization.ControlPlaneInitialized
	switch {
	case cluster.DeletionTimestamp != nil:
		w.fail("the deletion of %s does not end: %v, %s", name, cluster.Finalizers, says)
	case len(records) > 1:
		w.fail("%s has %v", name, records)
	case w.selected(cluster) == "false" && !w.heldByTwin(cluster):
		if len(records) > 0 || slices.Contains(cluster.Finalizers, finalizer) {
			w.fail("%s is not un-imported: %v, %v, %s", name, records, cluster.Finalizers, says)
		}
	case w.selected(cluster) == "true" && !forbidden && up != nil && *up:
		w.checkImported(cluster, records, says)
	}
}

// checkImported is what must hold of a CAPI cluster that is to be imported.
func (w *world) checkImported(cluster *clusterv1.Cluster, records []simulation.Key, says string) {
	if conditions.IsTrue(cluster, archelonv1.RancherImportedCondition) && len(records) == 1 {
		return
	}
	reason := conditions.GetReason(cluster, archelonv1.RancherImportedCondition)
	if w.twins && reason == archelonv1.RancherClusterNameTakenReason {
		return // Rancher would delete a CAPI cluster of the name together with the Rancher cluster.
	}
	if w.vandals && slices.Contains([]string{
		archelonv1.ForeignRancherClusterReason, archelonv1.IncompleteOwnerLabelsReason, archelonv1.DuplicateRancherClustersReason, archelonv1.RancherClusterNameTakenReason,
		archelonv1.RancherClusterTerminatingReason,
	}, reason) {
		return
	}
	if w.sites[client.ObjectKeyFromObject(cluster)].agent.stranger() && slices.Contains([]string{
		archelonv1.AgentOfAnotherClusterReason, archelonv1.AgentOfAnotherRancherReason,
	}, reason) {
		return
	}
	for object := range w.records() {
		owner := w.created[object.GetUID()]
		other, ok := object.(*managementv3.Cluster)
		switch {
		case owner == cluster.UID && w.vandals && reason == archelonv1.DisplayNameTakenReason && !labelledAsOwned(object):
			return // Somebody took the label off by which the record is known. A person has to decide.
		case owner == cluster.UID:
		case reason == archelonv1.DisplayNameTakenReason && ok &&
			slices.Contains(w.formsOf(cluster), other.Spec.DisplayName):
			return
		case reason == archelonv1.ForeignRancherClusterReason && w.lost[owner] && object.GetLabels()[archelonv1.OwnerNamespaceLabel] == cluster.Namespace:
			return // It was restored, and its record is that of before. A person has to decide.
		case reason == archelonv1.AgentOfAnotherClusterReason && w.lost[owner] && w.vandalized && !labelledAsOwned(object) &&
			w.sites[client.ObjectKeyFromObject(cluster)].agent.cluster == object.GetName():
			return // The same, and somebody took the label off by which the record is known. A person has to decide.
		}
	}
	w.fail("%s is not imported: %v, %s", describe(cluster), records, says)
}

func labelledAsOwned(object client.Object) bool {
	_, owned := object.GetLabels()[ownedLabel]
	return owned
}

// checkLeft is what must have become of a Rancher cluster.
func (w *world) checkLeft(object client.Object) {
	owner, ours := w.created[object.GetUID()]
	if !ours || w.lost[owner] && (w.vandals || object.GetDeletionTimestamp() == nil) || !labelledAsOwned(w.stemOf(object)) || object.GetLabels()[uidLabel] == "" ||
		w.stemOf(object).GetLabels()[uidLabel] == "" {
		return // Nobody can tell what belonged to the CAPI cluster. Of two, the label of the one is what is gone by.
	}
	if object.GetDeletionTimestamp() != nil {
		w.fail("the deletion of %s does not end: %v", w.server.KeyOf(object), object.GetFinalizers())
	}
	for _, cluster := range w.clusters() {
		if cluster.UID == owner {
			return
		}
	}
	w.fail("%s is left, and its CAPI cluster is gone", w.server.KeyOf(object))
}
