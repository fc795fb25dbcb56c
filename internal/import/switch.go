package importer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// A change of the strategy replaces the record of every imported cluster. Each waits for its turn and is followed under
// its old record until then. It is marked by the write that begins its change over, and the mark goes when the new
// record is connected: what is under way can be told from the objects alone, whatever becomes of this process.

// switchListPage is how many CAPI clusters are read at once to find those that are marked.
const switchListPage = 500

// outdated returns the record that the active strategy would replace, nil if there is none.
func (d *deciding) outdated() *record {
	for i := range d.records {
		if record := &d.records[i]; record.strategy != d.Active && record.madeFor(d.cluster) && !record.deleting() {
			return record
		}
	}
	return nil
}

// awaitTurn lets a cluster with a record of another kind change over when it has a slot. Only one that is connected and
// has a control plane gets any: another one would not come back either, and keep its slot. Until then the rules that
// follow work on the record that there is.
//
// The record is found by its labels. Without them the cache does not show it, or it is known by its name on the cluster
// alone: it is asked for, and gets them back before another name is written.
func (d *deciding) awaitTurn() Decision {
	if hidden, look := d.hidden(archelonv1.RecordAnnotation); look {
		return ask(hidden)
	}
	if first, look := d.calledOff(); look {
		return ask(first)
	}
	old := d.outdated()
	if old == nil {
		return pass()
	}
	if labelled := d.labelAgain(old); !labelled.passes() {
		return labelled
	}
	if switching(d.cluster) {
		d.replaces = old // It may be what a change over that was called off has created.
		return pass()
	}
	d.record, d.waits = old, turnMessage(old, d.Active)
	found := d.findManagement()
	switch {
	case found.Look != nil:
		return found
	case !found.passes() || !d.management.connected || !controlPlaneUp(d.cluster):
		return d.followOld() // What is wrong a later rule says.
	case d.lacks(takeTurn{}):
		d.queued = true
		return act(takeTurn{})
	}
	if d.queued = true; !d.turn {
		return d.followOld()
	}
	if old.strategy.Nature().TakesCluster {
		twin := askTwin{client.ObjectKeyFromObject(old.Object)}
		switch {
		case d.lacks(twin):
			return ask(twin)
		case d.twins[twin.key]:
			d.queued = false
			return heldByTwin(old)
		}
	}
	d.record, d.management, d.waits, d.replaces = nil, nil, "", old
	return pass()
}

// hidden is the question for a record of another kind that the cache does not show and an annotation of the cluster
// names, and whether it is to be asked. A cluster that names a record of its own kind costs no request.
func (d *deciding) hidden(annotation string) (askRecord, bool) {
	q, look := d.unseenRecord(d.cluster.Annotations[annotation])
	return q, look && q.strategy != d.Active
}

// calledOff is the question for the record that a change over was to replace which is called off now, and whether it is
// to be asked: the cache does not show that record, and the cluster names the one that was to be created.
func (d *deciding) calledOff() (askRecord, bool) {
	strategy, _, ok := d.splitID(d.cluster.Annotations[archelonv1.RecordAnnotation])
	q, look := d.replaced()
	return q, look && q.strategy == d.Active && ok && strategy != d.Active
}

// labelAgain has a record of another kind known by its labels, if it lacks them.
func (d *deciding) labelAgain(old *record) Decision {
	if !old.unseen && old.GetLabels()[archelonv1.OwnerUIDLabel] != "" {
		return pass()
	}
	before := d.record
	defer func() { d.record = before }()
	d.record = old
	return d.syncRecord()
}

// followOld has the cluster name the record that it has. It may name one of the new kind, of a change over that was
// called off.
func (d *deciding) followOld() Decision {
	return d.change("follow "+d.record.id(), "naming the record", func(cluster *clusterv1.Cluster) {
		d.hold(cluster, d.record.id())
	})
}

// deleteOtherKinds deletes records that another strategy created, and waits until they are gone before the
// active one creates its own: the agent can serve one Rancher cluster only.
func (d *deciding) deleteOtherKinds() Decision {
	for i := range d.records {
		found := &d.records[i]
		if found.strategy == d.Active || !found.madeFor(d.cluster) {
			continue
		}
		if labelled := d.labelAgain(found); !labelled.passes() {
			return labelled
		}
		if permitted := d.permitSuccessor(found); !permitted.passes() {
			return permitted
		}
		if removed := d.removeRecord(found); !removed.passes() {
			return removed
		}
		out := outcome.Wait(archelonv1.RecordTerminatingReason,
			fmt.Sprintf("The %s is being replaced by one of the kind %s", found, d.Active.Kind()))
		if found.unseen {
			out.Kind, out.After = outcome.KindPoll, unseenRecheck
		}
		return stop(out)
	}
	if gone := d.waitForDerived(); !gone.passes() {
		return gone
	}
	if made := d.find(d.cluster.Annotations[archelonv1.RecordAnnotation]); made != nil && made.madeFor(d.cluster) {
		return pass()
	}
	if hidden, look := d.hidden(archelonv1.StrategySwitchAnnotation); look {
		return ask(hidden) // It may have lost its labels since the name of the next one was written.
	}
	return pass()
}

// waitForDerived waits for what Rancher made from earlier records. It deletes those records first: where the cache does
// not show one, no watch tells when it has begun.
func (d *deciding) waitForDerived() Decision {
	for _, old := range d.derived {
		if !old.madeFor(d.cluster) || !old.deleting() {
			continue
		}
		out := outcome.Wait(archelonv1.RecordTerminatingReason, fmt.Sprintf("The earlier %s is still being deleted by Rancher", old))
		if made := d.standing(); made != nil && made.unseen {
			out.Kind, out.After = outcome.KindPoll, unseenRecheck
		}
		return stop(out)
	}
	return pass()
}

// endSwitch takes the mark off a cluster that has come back.
func (d *deciding) endSwitch() Decision {
	const doing = "noting the end of the change of strategy"
	return d.change("note the end of its change of strategy", doing, func(cluster *clusterv1.Cluster) {
		delete(cluster.Annotations, archelonv1.StrategySwitchAnnotation)
	})
}

// noteTurn keeps the slot of a cluster that changes over, and the place of one that waits. Any other gives up what it
// has: it has come back, is paused, deleted or un-imported, or something else has to end first.
func (r *Reconciler) noteTurn(ctx context.Context, o *Observation, d Decision) {
	switch {
	case d.Intent == intentImport && switching(o.cluster) && d.Outcome.Reason != archelonv1.RemovedInRancherReason:
		r.turns.keep(o.key)
	case d.queued:
	default:
		r.turns.leave(ctx, o.key)
	}
}

// listSwitching returns the clusters of this instance that change over. The API server is asked, for the cache may be
// older than what the process before this one wrote last.
func (r *Reconciler) listSwitching(ctx context.Context) ([]types.NamespacedName, error) {
	namespaces := r.Claim.Scope.Included()
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var found []types.NamespacedName
	for _, namespace := range namespaces {
		for next, more := "", true; more; more = next != "" {
			list := &clusterv1.ClusterList{}
			err := r.APIReader.List(ctx, list, client.InNamespace(namespace), client.Limit(switchListPage), client.Continue(next))
			if namespace != "" && apierrors.IsForbidden(err) {
				break // It was taken from this instance.
			}
			if err != nil {
				return nil, fmt.Errorf("looking for clusters whose change of strategy is under way: %w", err)
			}
			next = list.Continue
			for i := range list.Items {
				if cluster := &list.Items[i]; r.holdsTurn(cluster) {
					r.writes.note(cluster)
					found = append(found, client.ObjectKeyFromObject(cluster))
				}
			}
		}
	}
	return found, nil
}

// holdsTurn reports whether a cluster takes one of this instance's slots, as far as it can be told without its records.
func (r Rules) holdsTurn(cluster *clusterv1.Cluster) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return switching(cluster) && holds(cluster) && cluster.DeletionTimestamp.IsZero() && !paused(cluster) &&
		r.Claim.Covers(cluster) && emptyOr(by, r.Self.String())
}

// turnMessage is the same for all limits, so that a change of the limit writes to no cluster.
func turnMessage(old *record, active Strategy) string {
	return fmt.Sprintf("Rancher reports the cluster as connected. The %s is to be replaced by one of the kind %s and waits for its turn: "+
		"flag --strategy-switch-concurrency says how many are replaced at the same time, 0 stops it", old, active.Kind())
}

// takeTurn takes a slot to change over to another kind of record, or a place in the queue.
type takeTurn struct{}

func (takeTurn) String() string { return "take a turn to change over to another kind" }

func (takeTurn) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	if err := r.turns.rebuild(ctx, func() ([]types.NamespacedName, error) { return r.listSwitching(ctx) }); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	o.turn = r.turns.take(ctx, o.key)
	return outcome.Done()
}
