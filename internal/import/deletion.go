package importer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Deletion never waits for Rancher: a record that is asked to go is Rancher's to finish, and a CAPI cluster
// must be able to leave while Rancher, or its webhook, is down. It needs neither the workload cluster nor the
// control plane nor the label.

// deleteRancherClusters deletes every record that was created for this cluster, of whatever kind.
func (d *deciding) deleteRancherClusters() Decision {
	if !d.stopped {
		return act(stopWork{})
	}
	if named, look := d.named(); look {
		return ask(named)
	}
	if !d.ownsAny() && d.mayOwnMore() {
		return ask(askOwned{})
	}
	for i := range d.records {
		found := &d.records[i]
		if !found.madeFor(d.cluster) && !found.ending {
			continue
		}
		if !found.left && !found.deleting() {
			if confirmed := d.confirmUnimport("before its Rancher cluster is released"); !confirmed.passes() {
				return confirmed
			}
		}
		if removed := d.removeRecord(found); !removed.passes() {
			return removed
		}
	}
	return pass()
}

// confirmUnimport asks the API server whether the label still says that the cluster leaves Rancher. A process that has
// just started may see Rancher clusters as they are and the CAPI cluster as it was.
func (d *deciding) confirmUnimport(why string) Decision {
	if d.intent != intentUnimport {
		return pass()
	}
	confirm := askCluster{why}
	if d.lacks(confirm) {
		return ask(confirm)
	}
	current := d.current[confirm.why]
	if current != nil && current.UID == d.cluster.UID {
		if want, err := chosen(current.Labels, d.namespace); err == nil && want == exclude || !current.DeletionTimestamp.IsZero() {
			return pass()
		}
	}
	return stop(startOver())
}

// removeRecord deletes a record, unless Rancher would delete a CAPI cluster together with it. A CAPI cluster that is
// being deleted must be able to leave, or is gone, so its record is left behind then; otherwise a person decides.
func (d *deciding) removeRecord(found *record) Decision {
	if found.left || found.deleting() && !found.held() {
		return pass()
	}
	if cause := d.refusals[found.id()]; cause != nil {
		return d.withoutWebhook(found, cause)
	}
	if found.strategy.Nature().TakesCluster && !found.deleting() {
		twin := askTwin{client.ObjectKeyFromObject(found.Object)}
		switch {
		case d.lacks(twin):
			return ask(twin)
		case d.twins[twin.key] && (d.intent == intentDelete || d.intent == intentOrphans):
			return d.abandon(found)
		case d.twins[twin.key]:
			return heldByTwin(found)
		}
	}
	if d.intent == intentUnimport && !found.deleting() {
		return d.unimport(found)
	}
	return act(endRecord{record: *found, patient: d.intent == intentDelete, locked: d.intent != intentDelete})
}

// unimport releases a record, asks once more whether the label says that the cluster leaves Rancher, and deletes the
// version that was released. A process may freeze at any point of that: if the label was changed before the record was
// released, the second answer says so, and if another process holds the record again, the deletion is a conflict.
func (d *deciding) unimport(found *record) Decision {
	if found.held() {
		doing := fmt.Sprintf("releasing the %s Rancher cluster", found.strategy.Kind())
		action := recordChange(found, "release it before it is deleted", doing, hold.Import.Remove)
		action.ends, action.optional = true, true
		return act(action)
	}
	if confirmed := d.confirmUnimport("before its Rancher cluster is deleted"); !confirmed.passes() {
		return confirmed
	}
	return act(endRecord{record: *found, locked: true})
}

// heldByTwin stalls where a record has to stay, because Rancher would delete a CAPI cluster together with it.
func heldByTwin(found *record) Decision {
	return stall(archelonv1.RancherClusterNameTakenReason, fmt.Sprintf(
		"Not un-imported, to protect CAPI Cluster %s/%s: Rancher would delete it, too, because it has the same name as the %s. "+
			"Delete that CAPI Cluster first, or leave this Cluster imported", found.GetNamespace(), found.GetName(), found))
}

// withoutWebhook waits for a webhook that does not answer, and has the CAPI cluster go before its record if that takes
// too long.
func (d *deciding) withoutWebhook(found *record, cause error) Decision {
	if left := patienceLeft(d.cluster, d.now); left > 0 {
		return stop(outcome.Poll(archelonv1.DeletingReason, webhookAway+": "+cause.Error(), min(left, webhookRecheck)))
	}
	if found.halfLabelled() || found.unseen {
		return fail(cause) // releaseOrphans would not know it, or not see it.
	}
	owned := slices.ContainsFunc(found.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == d.cluster.UID
	})
	return act(leaveRecord{record: *found, owned: owned, cause: cause})
}

// abandon leaves a record to the administrator: nothing of ours deletes it, neither do owner references.
func (*deciding) abandon(found *record) Decision {
	doing := fmt.Sprintf("abandoning the %s Rancher cluster", found.strategy.Kind())
	action := recordChange(found, "leave it to the administrator", doing, func(object client.Object) {
		hold.Import.Remove(object)
		object.SetOwnerReferences(nil)
		labels := object.GetLabels()
		delete(labels, archelonv1.OwnerUIDLabel)
		object.SetLabels(labels)
	})
	action.abandons, action.optional = true, true
	return act(action)
}

// release takes the finalizer off a record that somebody else deletes.
func release(found *record) Decision { return act(released(found)) }

func released(found *record) changeRecord {
	doing := fmt.Sprintf("releasing the %s Rancher cluster", found.strategy.Kind())
	action := recordChange(found, "release it", doing, hold.Import.Remove)
	action.releases, action.optional = true, true
	return action
}

// releaseCluster takes finalizer and record annotation off the CAPI cluster, in one write and last.
func (d *deciding) releaseCluster() Decision {
	action, differs := d.changed("release it", "releasing the CAPI cluster", func(cluster *clusterv1.Cluster) {
		hold.Imports().Drop(cluster, true)
	})
	if !differs {
		return pass()
	}
	action.optional = true
	return act(action)
}

// observeRemoval follows a record that was deleted in Rancher: first the CAPI cluster learns of it, so that it is not
// imported again, then the record is released. Records of an earlier cluster of this name are released as well.
func (d *deciding) observeRemoval() Decision {
	if slices.ContainsFunc(d.derived, func(r record) bool { return r.deleting() && r.madeFor(d.cluster) }) {
		// Rancher deletes it with its v1 record, which the cache does not show without its labels.
		if named, look := d.named(); look {
			return ask(named)
		}
	}
	for i := range d.records {
		found := &d.records[i]
		if !found.deleting() || !found.held() {
			continue
		}
		decision := d.removalOf(found)
		if !found.madeFor(d.cluster) {
			decision = d.stranger(found)
		}
		if !decision.passes() {
			return decision
		}
	}
	return pass()
}

// removalOf notes the removal of a record if that was the cluster's place in Rancher: the one that the cluster names,
// or the last one, while it names a successor of the other kind that has yet to be created. Without a name on the
// cluster the removal is noted already. A cluster that has another record follows that: this one was one too many.
func (d *deciding) removalOf(found *record) Decision {
	id := d.cluster.Annotations[archelonv1.RecordAnnotation]
	if id == "" {
		return d.releaseNoted(found)
	}
	other, look := d.other()
	switch {
	case look != nil:
		return ask(*look)
	case id == found.id():
	case other != nil:
		return release(found)
	default:
		// The successor may have been created a moment ago.
		if named, look := d.named(); look {
			return ask(named)
		}
	}
	action, _ := d.changed("follow its other Rancher cluster", "noting the removal in Rancher", func(cluster *clusterv1.Cluster) {
		if other != nil {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.RecordAnnotation, other.id())
			return
		}
		hold.Imports().Drop(cluster, true)
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.ImportedAnnotation, "true")
	})
	if other == nil {
		action.what, action.removes = "note that its Rancher cluster was deleted in Rancher", true
	}
	// In one go: without its labels the record is known by what is written on the cluster alone.
	return act(stopWork{}, action, released(found))
}

// other returns the record that the cluster has besides, nil if it has none, or the question that tells. The cache may
// show one as it was, so the API server is asked for each.
func (d *deciding) other() (*record, *askRecord) {
	for i := range d.records {
		found := &d.records[i]
		if !found.madeFor(d.cluster) || found.deleting() {
			continue
		}
		q := askRecord{strategy: found.strategy, name: found.GetName()}
		switch {
		case found.unseen:
			return found, nil
		case d.lacks(q):
			return nil, &q
		}
		if live := d.live[found.id()]; live != nil && live.madeFor(d.cluster) && !live.deleting() {
			return found, nil
		}
	}
	return nil, nil
}

// releaseNoted releases a record whose removal is noted. The API server confirms that, for the cache may be older
// than the name on the cluster.
func (d *deciding) releaseNoted(found *record) Decision {
	current := askCluster{"for the name of its Rancher cluster"}
	if d.lacks(current) {
		return ask(current)
	}
	if cluster := d.current[current.why]; cluster != nil && cluster.UID == d.cluster.UID && cluster.Annotations[archelonv1.RecordAnnotation] != "" {
		return pass()
	}
	return release(found)
}

// stranger releases a record that is being deleted and was not created for this cluster: for an earlier one of this
// name, or for one that nobody can tell any more. The API server is asked which cluster is the current one, for the
// cache may be the older of the two. One that names no namespace, neither by its own nor by its label, may be that of a
// namesake elsewhere, which has yet to learn of the deletion.
func (d *deciding) stranger(found *record) Decision {
	namespace := cmp.Or(found.GetNamespace(), found.GetLabels()[archelonv1.OwnerNamespaceLabel])
	if !found.deleting() || !found.held() || namespace == "" {
		return pass()
	}
	current := askCluster{"for Rancher clusters of another one"}
	if d.lacks(current) {
		return ask(current)
	}
	if cluster := d.current[current.why]; cluster != nil && found.madeFor(cluster) {
		return pass()
	}
	return release(found)
}

// releaseOrphans releases records that are being deleted and whose CAPI cluster is gone. A record that is not being
// deleted is left alone, for its cluster may be about to be restored from a backup, unless this process has seen the
// cluster vanish together with our finalizer. What it has seen is kept for a moment, until the record must have come by
// its own watch. From a management cluster elsewhere a record is kept even then: another backup of it, or another API
// server behind its address, looks the same.
func (d *deciding) releaseOrphans() Decision {
	if !d.forgotten {
		return act(forgetCluster{})
	}
	for i := range d.records {
		found := &d.records[i]
		lost := !found.deleting() && d.holding != "" && found.GetLabels()[archelonv1.OwnerUIDLabel] == string(d.holding)
		if !lost && (!found.deleting() || !found.held() || found.halfLabelled()) {
			continue
		}
		current := askCluster{"for what it has left behind"}
		switch {
		case d.lacks(current):
			return ask(current)
		case d.current[current.why] != nil:
			return pass()
		case lost && d.Origin != "":
			return act(keepRecord{record: *found})
		case lost:
			return d.removeRecord(found)
		default:
			return release(found)
		}
	}
	if d.lacks(askHolding{}) {
		return ask(askHolding{})
	}
	return endAfter(d.left)
}

// withdrawnRetry is the pause after a cluster was left alone whose namespace was taken from the instance. The
// instance may get it again, which no watch on the cluster tells.
const withdrawnRetry = 10 * time.Second

// leaveBehind sees to one thing for a cluster that this instance does not claim: that its record can go when somebody
// deletes it in Rancher. The watch filter's label may have been taken off a cluster that was imported, and then nobody
// claims it, but our finalizers are still there. Several instances may do this at the same time: the optimistic lock
// lets one of them through.
func (d *deciding) leaveBehind() Decision {
	switch {
	case !d.forgotten:
		return act(forgetCluster{})
	case !leftBehind(d.cluster) && !d.removed, !d.removalPending() && !d.removed && !d.released:
		return endAfter(0)
	case d.lacks(askOthers{}):
		return ask(askOthers{})
	case d.elsewhere:
		return endAfter(0) // See instanceGone.
	default:
		return pass()
	}
}

// removalPending reports whether a record was deleted in Rancher of which the cluster, or its condition, has yet to say
// so.
func (d *deciding) removalPending() bool {
	for _, old := range slices.Concat(d.records, d.derived) {
		if old.deleting() && (old.held() || holds(d.cluster) && old.madeFor(d.cluster)) {
			return true
		}
	}
	// A run that released the record may have ended before it could say so.
	return !holds(d.cluster) && meta.IsStatusConditionTrue(d.cluster.GetConditions(), archelonv1.RancherImportedCondition)
}
