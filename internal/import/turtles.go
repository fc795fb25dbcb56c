package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/import/turtles"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Where Rancher Turtles is at work this importer keeps off, until an administrator decides.

// adoptWanted reports whether records of Turtles are to be taken over.
func (d *deciding) adoptWanted() bool {
	switch assigned := d.assigned(); {
	case assigned.problem != nil:
		return false
	case assigned.to == "":
		return d.AdoptTurtles
	default:
		return assigned.to == archelonv1.ManagedByArchelon
	}
}

// checkTurtles refuses to create a record while Turtles imports, or if the cluster is assigned to Turtles. Imports that
// exist go on: Turtles does not touch a cluster whose record it finds by its labels, other than to follow it, and an
// annotation that a tenant writes must not end an import.
func (d *deciding) checkTurtles() Decision {
	assigned := d.assigned()
	switch {
	case assigned.problem != nil:
		return fail(assigned.problem)
	case assigned.to == archelonv1.ManagedByTurtles && !holds(d.cluster) && !d.hasRecord():
		return stall(archelonv1.AssignedToTurtlesReason, fmt.Sprintf(
			"%s assigns this Cluster to Rancher Turtles, so Archelon does not import it. To import it with Archelon, set annotation %s on this Cluster to %q",
			assigned.where, archelonv1.ManagedByAnnotation, archelonv1.ManagedByArchelon))
	}
	if d.TurtlesParked || d.ownName() != "" {
		// A parked one runs, and holds its Lease, for what else it does. What it imports nevertheless is refused by
		// checkNeighbours.
		return pass()
	}
	if d.lacks(askTurtles{}) {
		return ask(askTurtles{})
	}
	// Somebody who assigns the cluster to this importer has divided the work; a record that
	// Turtles follows is another matter.
	divided := assigned.to == archelonv1.ManagedByArchelon && !d.tracesOfTurtles()
	if d.lease.Left == 0 || divided {
		return pass()
	}
	// The Lease ends by not being renewed, which no event tells.
	return stop(outcome.Poll(archelonv1.TurtlesActiveReason,
		"Waiting: Rancher Turtles is running and would import the same clusters. "+turtles.Park, d.lease.Left))
}

// tracesOfTurtles reports whether Turtles holds the cluster or a record of it.
func (o *Observation) tracesOfTurtles() bool {
	return turtles.Holds(o.cluster) || slices.ContainsFunc(o.records, func(r record) bool { return !r.madeFor(o.cluster) && r.ofTurtles() })
}

// adopt takes over the record that Turtles created, where an administrator asks for it: the record keeps its name and
// its registration, and gets our label and finalizer in place of Turtles'. The CAPI cluster is claimed first, so that a
// crash in between leaves a claim that the next run completes.
func (d *deciding) adopt() Decision {
	if !d.adoptWanted() {
		return pass()
	}
	if d.lacks(askTurtles{}) {
		return ask(askTurtles{})
	}
	if turtles.Holds(d.cluster) && !d.mayTake() {
		return stop(outcome.Poll(archelonv1.ManagedByTurtlesReason, turtles.WhyNotTaken(d.TurtlesParked), d.lease.Left))
	}
	if d.hasRecord() {
		return d.takeBack()
	}
	candidate, refused := d.adoptable()
	switch {
	case !refused.passes():
		return refused
	case candidate == nil:
		return d.takeBack()
	}
	if _, err := d.desiredAs(candidate.strategy, d.cluster, candidate.GetName()); err != nil {
		return fail(err)
	}
	var actions []Action
	what := "claim " + candidate.id() + " of Rancher Turtles"
	claim, differs := d.changed(what, "claiming the Rancher cluster of Rancher Turtles", func(cluster *clusterv1.Cluster) {
		turtles.Release(cluster)
		d.hold(cluster, candidate.id())
	})
	if differs {
		actions = append(actions, claim)
	}
	if d.lease.Left > 0 {
		actions = append(actions, noteTaking{d.lease})
	}
	adopted := recordChange(candidate, "adopt it", "adopting the Rancher cluster of Rancher Turtles", func(object client.Object) {
		labels := maps.Clone(object.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[archelonv1.OwnedLabel] = ""
		labels[archelonv1.OwnerNameLabel] = d.cluster.Name
		labels[archelonv1.OwnerNamespaceLabel] = d.cluster.Namespace
		labels[archelonv1.OwnerUIDLabel] = string(d.cluster.UID)
		object.SetLabels(labels)
		hold.Import.Add(object)
		turtles.Release(object)
	})
	adopted.adopts = true
	return act(append(actions, adopted)...)
}

// adoptable returns the one record that Turtles created for the cluster, or nil.
func (d *deciding) adoptable() (*record, Decision) {
	var found *record
	for i := range d.records {
		candidate := &d.records[i]
		labels := candidate.GetLabels()
		switch {
		case candidate.deleting(), labels[archelonv1.OwnerUIDLabel] != "":
			continue // Ours, of this or another incarnation.
		case !candidate.ofTurtles() && candidate.halfLabelled():
			continue // Nobody can tell; the next rule refuses it.
		case found != nil:
			return nil, stall(archelonv1.DuplicateRancherClustersReason, fmt.Sprintf(
				"Rancher Turtles left two Rancher clusters of this Cluster, the %s and the %s. Delete the one that you do not need in Rancher", found, candidate))
		}
		found = candidate
	}
	return found, pass()
}

// takeBack takes the finalizer of Turtles off the cluster and off what was created for it. Turtles puts it on every
// record that it finds by the owner labels, and when Turtles has gone nobody else takes it off. The cluster is the
// last: a run that failed in between is repeated.
func (d *deciding) takeBack() Decision {
	var actions []Action
	for _, records := range [][]record{d.records, d.derived} {
		for i := range records {
			if records[i].madeFor(d.cluster) && turtles.Holds(records[i].Object) {
				action := recordChange(&records[i], "take the finalizer of Rancher Turtles off",
					fmt.Sprintf("releasing the %s Rancher cluster from Rancher Turtles", records[i].strategy.Kind()), turtles.Release)
				action.optional = true
				actions = append(actions, action)
			}
		}
	}
	released, differs := d.changed("take the finalizer of Rancher Turtles off", "releasing the CAPI cluster from Rancher Turtles",
		func(cluster *clusterv1.Cluster) { turtles.Release(cluster) })
	if differs {
		actions = append(actions, released)
	}
	if len(actions) == 0 || !d.mayTake() {
		return pass()
	}
	if d.lease.Left > 0 {
		actions = append(actions, noteTaking{d.lease})
	}
	return act(actions...)
}

// mayTake reports whether what Turtles holds may be taken from it without a fight.
func (d *deciding) mayTake() bool {
	return d.lease.MayTake(d.TurtlesParked, d.taken, d.taking(d.lease))
}

// taking is what would be taken now from a Turtles that holds its Lease.
func (o *Observation) taking(lease turtles.Lease) turtles.Taking {
	return turtles.Taking{UID: o.cluster.UID, By: lease.By}
}

// noteTaking remembers from which process of Turtles the cluster was taken.
type noteTaking struct{ lease turtles.Lease }

func (a noteTaking) String() string {
	return fmt.Sprintf("remember that it was taken from Rancher Turtles (%s)", a.lease.By)
}

func (a noteTaking) do(_ context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	r.takings.Note(o.key, o.taking(a.lease))
	o.taken = r.takings.Of(o.key)
	return outcome.Done()
}
