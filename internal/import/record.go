package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// claim writes the name of the record on the CAPI cluster, together with the finalizer, before the record is created.
// The optimistic lock makes it the one decision that every process agrees on: names of v3 records are random, caches
// are stale and processes die, and still there is one name.
func (d *deciding) claim() Decision {
	name, stays, look := d.namedRecord()
	switch {
	case look != nil:
		return ask(look)
	case stays && holds(d.cluster):
		return pass()
	case !stays:
		if d.mayOwnMore() {
			return ask(askOwned{})
		}
		if terminating := d.waitForTerminating(); !terminating.passes() {
			return terminating
		}
		if name = d.ownName(); name == "" {
			if d.lacks(askFreeName{}) {
				return ask(askFreeName{})
			}
			name = d.free[""]
		}
	}
	desired, err := d.desiredAs(d.Active, d.cluster, name)
	if err != nil {
		return fail(err)
	}
	if free := d.claimDisplayName(desired); !free.passes() {
		return free
	}
	return d.writeAhead(name)
}

// waitForTerminating waits for earlier records of this very cluster. Rancher starts the clean-up of the workload
// cluster before such a record is gone, and it would remove an agent that was installed meanwhile.
func (d *deciding) waitForTerminating() Decision {
	for _, old := range slices.Concat(d.records, d.derived) {
		if old.madeFor(d.cluster) && old.deleting() {
			return stillDeleted(&old)
		}
	}
	if d.hasRecord() {
		return pass()
	}
	for _, old := range d.derived {
		// Rancher deletes it with the v1 Rancher cluster, which is gone. The cache may not show that yet.
		live := askRecord{strategy: old.strategy, name: old.GetName(), why: ", which Rancher derived from an earlier one", derived: true}
		if old.madeFor(d.cluster) && d.lacks(live) {
			return ask(live)
		}
	}
	return pass()
}

func stillDeleted(old *record) Decision {
	out := outcome.Wait(archelonv1.RancherClusterTerminatingReason, fmt.Sprintf(
		"Waiting until Rancher has deleted the earlier %s, usually less than a minute. Its finalizers are %s. After 5 minutes, check the log of Rancher", old, strings.Join(old.GetFinalizers(), ", ")))
	if old.unseen {
		out.Kind, out.After = outcome.KindPoll, unseenRecheck
	}
	return stop(out)
}

// ensureRecord creates the record under the name that was written ahead. A record that is there already must carry
// the UID of this cluster; any other is never touched.
func (d *deciding) ensureRecord() Decision {
	strategy, name, ok := d.splitID(d.cluster.Annotations[archelonv1.RecordAnnotation])
	if !ok || strategy != d.kind() {
		return fail(errors.New("another writer has changed the name of the Rancher cluster. Archelon starts over"))
	}
	id := recordID(strategy, name)
	if found := d.find(id); found != nil && found.madeFor(d.cluster) {
		d.record = found
		return pass()
	}
	if d.occupied {
		return d.occupiedBy(strategy, name)
	}
	if left := d.creation.awaited(id, d.now); left > 0 {
		out := waitingForRancher()
		out.Kind, out.After = outcome.KindPoll, left
		return stop(out)
	}
	if confirmed := d.confirmClaim(); !confirmed.passes() {
		return confirmed
	}
	if !strategy.Names(d.cluster, name) {
		return d.occupiedBy(strategy, name) // Only one that exists can have such a name.
	}
	if free := d.checkNamespace(strategy, name); !free.passes() {
		return free
	}
	desired, err := d.desiredAs(strategy, d.cluster, name)
	if err != nil {
		return fail(err)
	}
	if !d.claimed {
		if free := d.claimDisplayName(desired); !free.passes() {
			return free
		}
	}
	if desired.Description == "" {
		desired.Description = defaultDescription
	}
	return act(createRecord{strategy: strategy, object: strategy.Render(d.toldApart(desired))})
}

// confirmClaim asks the API server whether the cluster still wants the record. Without it a stale cache could bring
// back a record whose deletion another process has seen through.
func (d *deciding) confirmClaim() Decision {
	if d.claimed {
		return pass()
	}
	confirm := askCluster{"before its Rancher cluster is created"}
	if d.lacks(confirm) {
		return ask(confirm)
	}
	current := d.current[confirm.why]
	if current == nil {
		return fail(errors.New("confirming the CAPI cluster: it is gone"))
	}
	if isKeptOut(current.Annotations) || current.UID != d.cluster.UID || !current.DeletionTimestamp.IsZero() ||
		current.Annotations[archelonv1.RecordAnnotation] != d.cluster.Annotations[archelonv1.RecordAnnotation] ||
		current.Annotations[archelonv1.InstanceAnnotation] != d.cluster.Annotations[archelonv1.InstanceAnnotation] {
		return stop(startOver())
	}
	return pass()
}

// occupiedBy looks at what exists under the chosen name: the record itself, which the cache does not show yet or,
// without its owner labels, any more, or somebody else's.
func (d *deciding) occupiedBy(strategy Strategy, name string) Decision {
	occupant := askRecord{strategy: strategy, name: name, why: ", which has the name of the Rancher cluster"}
	if d.lacks(occupant) {
		return ask(occupant) // One of this cluster is among the records then, and not looked at here.
	}
	found := d.live[recordID(strategy, name)]
	switch {
	case found == nil:
		return fail(fmt.Errorf("getting the %s Rancher cluster: it is gone", strategy.Kind()))
	case found.deleting():
		if labels := found.GetLabels(); labels[archelonv1.OwnerNameLabel] == d.cluster.Name && labels[archelonv1.OwnerNamespaceLabel] == d.cluster.Namespace &&
			labels[archelonv1.ManagementClusterLabel] == string(d.Origin) {
			// That of an earlier cluster of this name, which no watch shows without its label: nobody else releases it.
			if released := d.stranger(found); !released.passes() {
				return released
			}
		}
		return stillDeleted(found)
	}
	// Somebody else was first to take the name. Nothing was created under it, so another one is chosen.
	return d.rename(found)
}

// findManagement finds the v3 Cluster that Rancher works with: the record itself, or the one made from a v1 record.
func (d *deciding) findManagement() Decision {
	name := d.record.strategy.ManagementName(d.record.Object)
	if name == "" {
		return stop(waitingForRancher())
	}
	if look := (askManagement{name: name, live: !d.record.strategy.Nature().Itself}); d.lacks(look) {
		return ask(look)
	}
	found := d.managements[name]
	switch {
	case found == nil:
		return stop(waitingForRancher())
	case !d.record.stands(found.object):
		// Nothing is done to it. A record under the name of a v3 Cluster, which tenants can make,
		// becomes the companion of that.
		return stop(outcome.Poll(archelonv1.ForeignRancherClusterReason, fmt.Sprintf(
			"The %s refers to v3 Rancher cluster %s (status.clusterName), but Rancher did not create that from it. Delete the %s in Rancher, then remove annotation imported from this Cluster",
			d.record, name, d.record), unseenRecheck))
	case !found.object.DeletionTimestamp.IsZero():
		return wait(archelonv1.RancherClusterTerminatingReason, "Waiting until Rancher has deleted the Rancher cluster of this Cluster, usually less than a minute. After 5 minutes, check the log of Rancher")
	}
	d.management = viewOf(found.object)
	return pass()
}
