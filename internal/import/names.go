package importer

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// The annotation that names the record can be written by whoever may write the CAPI cluster, and a record is created
// with our permissions. So a name is only followed if it is that of a record of this cluster, or one that we may have
// chosen.

// namedRecord returns the name of the record that the annotation gives, and whether it is to stay. Another one is
// chosen if not. A question has to be asked before.
func (d *deciding) namedRecord() (name string, stays bool, look question) {
	id := d.cluster.Annotations[archelonv1.RecordAnnotation]
	strategy, name, ok := d.splitID(id)
	if !ok || strategy != d.kind() {
		return "", false, nil
	}
	if named := d.find(id); named != nil && (named.deleting() || named.madeFor(d.cluster)) {
		// The removal of one that is being deleted is known already, or was asked for by us: the next
		// record gets a name of its own.
		return name, !named.deleting(), nil
	}
	misnamed, look := d.hasAnother()
	if look != nil || misnamed {
		return name, false, look
	}
	if strategy.Names(d.cluster, name) {
		return name, true, nil
	}
	// Without its labels the cache does not show it.
	if named, look := d.named(); look {
		return name, false, named
	}
	return name, false, nil
}

// hasAnother reports whether the cluster has a record that the annotation does not name. The API server confirms it,
// for the cache may show one that was there before the one that is named.
func (d *deciding) hasAnother() (bool, question) {
	for i := range d.records {
		cached := &d.records[i]
		if !cached.madeFor(d.cluster) || cached.deleting() {
			continue
		}
		confirm := askRecord{strategy: cached.strategy, name: cached.GetName(), why: ", which the cluster does not name"}
		if d.lacks(confirm) {
			return false, confirm
		}
		live := d.live[cached.id()]
		if live != nil && live.GetUID() == cached.GetUID() && live.madeFor(d.cluster) && !live.deleting() {
			return true, nil
		}
	}
	return false, nil
}

// checkNamespace refuses a name that was not chosen in this run and that a namespace has without a record: Rancher
// would take the namespace over, and delete it together with the record. An instance of named namespaces has no
// permission to look.
func (d *deciding) checkNamespace(strategy Strategy, name string) Decision {
	chosen := d.claimed && d.free[""] == name
	if chosen || !strategy.Nature().TakesNamespace || len(d.Claim.Scope.Included()) > 0 {
		return pass()
	}
	if d.lacks(askNamespace{name}) {
		return ask(askNamespace{name})
	}
	if !d.namespaces[name] {
		return pass()
	}
	// After the namespace, for Rancher creates it for a record that another process of ours may just have created.
	owner := askRecord{strategy: strategy, name: name, why: ", which may have the namespace"}
	if d.lacks(owner) {
		return ask(owner)
	}
	if d.live[recordID(strategy, name)] == nil {
		found := &record{Object: strategy.NewObject(), strategy: strategy}
		found.SetName(name)
		return d.rename(found)
	}
	return pass() // Creating the record tells whose it is.
}

// rename writes another name ahead, because the one that the cluster has is not free. Where the other one is not free
// either, nothing is written: it would go to and fro between the two.
func (d *deciding) rename(found *record) Decision {
	if d.mayOwnMore() {
		return ask(askOwned{})
	}
	strategy, name := found.strategy, found.GetName()
	if d.lacks(askFreeName{name}) {
		return ask(askFreeName{name})
	}
	other := d.free[name]
	if other == name {
		return stop(outcome.Poll(archelonv1.ForeignRancherClusterReason, fmt.Sprintf(
			"The %s already uses the name that this import needs, and does not belong to this Cluster. If it is not needed, delete it in Rancher. "+
				"Otherwise create this Cluster under another name", found), unseenRecheck))
	}
	second := askRecord{strategy: strategy, name: other, why: ", whose name may be free"}
	if d.lacks(second) {
		return ask(second)
	}
	if occupant := d.live[recordID(strategy, other)]; occupant != nil && !occupant.madeFor(d.cluster) {
		return stop(outcome.Poll(archelonv1.ForeignRancherClusterReason, fmt.Sprintf(
			"The %s and the %s already use the names that this import can use, and do not belong to this Cluster. Delete the one that is not needed in Rancher, "+
				"or create this Cluster under another name", found, occupant), unseenRecheck))
	}
	ahead := d.writeAhead(other)
	ahead.Outcome = outcome.Poll(
		archelonv1.WaitingForRancherReason, "The chosen name of the Rancher cluster was taken. Archelon chooses another one", conflictRetry,
	)
	return ahead
}

func (d *deciding) writeAhead(name string) Decision {
	id := recordID(d.kind(), name)
	what := "write ahead the name of its Rancher cluster, " + id
	action, differs := d.changed(what, "writing the name of the Rancher cluster ahead", func(cluster *clusterv1.Cluster) {
		d.hold(cluster, id)
	})
	if !differs {
		return pass()
	}
	action.claims = true
	return act(action)
}

// hold takes the CAPI cluster for this instance and a record.
func (r Rules) hold(cluster *clusterv1.Cluster, record string) {
	hold.Imports().Take(cluster, r.Self.String(), map[string]string{archelonv1.RecordAnnotation: record})
}
