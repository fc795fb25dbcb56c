package importer

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Rancher Turtles reacts to the same label and writes the same owner labels. Two importers at work would make two records of a
// cluster, so this one keeps off wherever the other is, until an administrator decides.

// turtlesFinalizer is on what Turtles holds.
const turtlesFinalizer hold.Finalizer = archelonv1.TurtlesFinalizer

// adoptWanted reports whether records of Turtles are to be taken over.
func (r *Reconciler) adoptWanted(s *scope) bool {
	switch {
	case s.assigned.problem != nil:
		return false
	case s.assigned.to == "":
		return r.AdoptTurtles
	default:
		return s.assigned.to == archelonv1.ManagedByArchelon
	}
}

// checkTurtles refuses to make a record while Turtles imports. Imports that exist go on: Turtles does not touch a cluster whose record it
// finds by its labels, other than to follow it. A record of the other kind stays as well, for it could not be replaced once it is deleted.
func (r *Reconciler) checkTurtles(ctx context.Context, s *scope) outcome.Outcome {
	if s.assigned.problem != nil {
		return outcome.FromError(s.assigned.problem, archelonv1.InternalErrorReason)
	}
	if r.TurtlesParked {
		// It runs, and holds its Lease, for what else it does. What it imports nevertheless is refused by checkNeighbours.
		return outcome.Done()
	}
	if slices.ContainsFunc(s.records, func(d record) bool { return d.strategy == r.Active && d.madeFor(s.cluster) && !d.deleting() }) {
		return outcome.Done()
	}
	lease, err := r.turtlesHold(ctx)
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	// Somebody who assigns the cluster to this importer has divided the work; a record that Turtles follows is another matter.
	divided := s.assigned.to == archelonv1.ManagedByArchelon && !s.tracesOfTurtles()
	if lease.left == 0 || divided {
		return outcome.Done()
	}
	message := "Rancher Turtles runs and imports clusters with the same label; " + parkTurtles + ", then this import goes on"
	if s.hasRecord() {
		message = fmt.Sprintf("Rancher Turtles runs; the Rancher cluster stays as it is. To have it replaced by one of the kind %s, %s, or set annotation %s to %q",
			r.Active.Kind(), parkTurtles, archelonv1.ManagedByAnnotation, archelonv1.ManagedByArchelon)
	}
	// The Lease ends by not being renewed, which no event tells.
	return outcome.Poll(archelonv1.TurtlesActiveReason, message, lease.left)
}

// tracesOfTurtles reports whether Turtles holds the cluster or a record of it.
func (s *scope) tracesOfTurtles() bool {
	return ofTurtles(s.cluster) || slices.ContainsFunc(s.records, func(r record) bool { return !r.madeFor(s.cluster) && r.ofTurtles() })
}

// turtlesHold returns for how long Turtles still holds its Lease, and which process of it.
func (r *Reconciler) turtlesHold(ctx context.Context) (turtlesHold, error) {
	leases := &coordinationv1.LeaseList{}
	if err := r.Client.List(ctx, leases); err != nil {
		return turtlesHold{}, fmt.Errorf("looking for the Lease of Rancher Turtles: %w", err)
	}
	return r.turtles.held(leases.Items, r.Clock.Now()), nil
}

// adopt takes over the record that Turtles made, where an administrator asks for it: the record keeps its name and its
// registration, and gets our label and finalizer in place of Turtles'. The CAPI cluster is claimed first, so that a crash in between
// leaves a claim that the next run completes.
func (r *Reconciler) adopt(ctx context.Context, s *scope) outcome.Outcome {
	if !r.adoptWanted(s) {
		return outcome.Done()
	}
	lease, err := r.turtlesHold(ctx)
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	if ofTurtles(s.cluster) && !r.mayTake(s, lease) {
		return outcome.Poll(archelonv1.ManagedByTurtlesReason, r.whyNotTaken(), lease.left)
	}
	if s.hasRecord() {
		return r.takeBack(ctx, s, lease)
	}
	candidate, out := s.adoptable()
	if !out.IsDone() {
		return out
	}
	if candidate == nil {
		return r.takeBack(ctx, s, lease)
	}
	if candidate.strategy != r.Active {
		return outcome.Stall(archelonv1.ManagedByTurtlesReason, fmt.Sprintf(
			"The %s of Rancher Turtles cannot be adopted by the strategy %s; switch feature gate managementv3-cluster, or delete it in Rancher", candidate, r.Active.Kind()))
	}
	if _, err := r.desired(s.cluster, candidate.GetName()); err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	err = r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		turtlesFinalizer.Remove(cluster)
		r.hold(cluster, candidate.id())
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("claiming the record of Rancher Turtles: %w", err))
	}
	r.takings.note(s, lease)
	err = r.patchRecord(ctx, candidate, func(object client.Object) {
		labels := object.GetLabels()
		labels[archelonv1.OwnedLabel] = ""
		labels[archelonv1.OwnerNameLabel] = s.cluster.Name
		labels[archelonv1.OwnerNamespaceLabel] = s.cluster.Namespace
		labels[archelonv1.OwnerUIDLabel] = string(s.cluster.UID)
		object.SetLabels(labels)
		hold.Import.Add(object)
		turtlesFinalizer.Remove(object)
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("adopting the record of Rancher Turtles: %w", err))
	}
	s.adopted = true
	ctrl.LoggerFrom(ctx).Info("Adopted Rancher cluster of Rancher Turtles", "rancherCluster", candidate.id())
	return outcome.Done()
}

// adoptable returns the one record that Turtles made for the cluster, or nil.
func (s *scope) adoptable() (*record, outcome.Outcome) {
	var found *record
	for i := range s.records {
		candidate := &s.records[i]
		labels := candidate.GetLabels()
		switch {
		case candidate.deleting(), labels[archelonv1.OwnerUIDLabel] != "":
			continue // Ours, of this or another incarnation.
		case !candidate.ofTurtles() && candidate.halfLabelled():
			continue // Nobody can tell; the next phase refuses it.
		case found != nil:
			return nil, outcome.Stall(archelonv1.DuplicateRecordsReason, fmt.Sprintf(
				"Rancher Turtles left two records of this cluster, the %s and the %s; delete one of them in Rancher", found, candidate))
		}
		found = candidate
	}
	return found, outcome.Done()
}

// takeBack takes the finalizer of Turtles off the cluster and off what was made for it. Turtles puts it on every record that it finds by the owner
// labels, and when Turtles has gone nobody else takes it off. The cluster is the last: a run that failed in between is repeated.
func (r *Reconciler) takeBack(ctx context.Context, s *scope, lease turtlesHold) outcome.Outcome {
	var touched []*record
	for _, records := range [][]record{s.records, s.derived} {
		for i := range records {
			if records[i].madeFor(s.cluster) && ofTurtles(records[i].Object) {
				touched = append(touched, &records[i])
			}
		}
	}
	if !ofTurtles(s.cluster) && len(touched) == 0 || !r.mayTake(s, lease) {
		return outcome.Done()
	}
	for _, record := range touched {
		err := r.patchRecord(ctx, record, turtlesFinalizer.Remove)
		if client.IgnoreNotFound(err) != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("releasing the %s Rancher cluster from Rancher Turtles: %w", record.strategy.Kind(), err))
		}
	}
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		turtlesFinalizer.Remove(cluster)
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("releasing the CAPI cluster from Rancher Turtles: %w", err))
	}
	r.takings.note(s, lease)
	ctrl.LoggerFrom(ctx).Info("Took the finalizer of Rancher Turtles off", "records", len(touched))
	return outcome.Done()
}

// handOver makes a record look as if Turtles had made it, which finds it by its owner labels. Nothing is deleted. A record that was made for an
// earlier cluster of this name stays as it is, and is let go when somebody else deletes it.
func (r *Reconciler) handOver(ctx context.Context, s *scope) outcome.Outcome {
	r.forget(s.key())
	if err := r.findNamed(ctx, s); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	for i := range s.records {
		record := &s.records[i]
		if !record.madeFor(s.cluster) {
			if err := r.releaseStranger(ctx, s, record); err != nil {
				return outcome.Fail(archelonv1.InternalErrorReason, err)
			}
			continue
		}
		err := r.patchRecord(ctx, record, func(object client.Object) {
			labels := object.GetLabels()
			delete(labels, archelonv1.OwnerUIDLabel)
			object.SetLabels(labels)
			annotations := object.GetAnnotations()
			delete(annotations, archelonv1.PropagatedLabelsAnnotation)
			delete(annotations, archelonv1.PropagatedSettingsAnnotation)
			object.SetAnnotations(annotations)
			hold.Import.Remove(object)
		})
		if client.IgnoreNotFound(err) != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("handing the record to Rancher Turtles: %w", err))
		}
	}
	return outcome.Done()
}

// confirmHandOver reports that the cluster is left to Turtles.
func (r *Reconciler) confirmHandOver(_ context.Context, s *scope) outcome.Outcome {
	return outcome.Stall(archelonv1.HandedToTurtlesReason, fmt.Sprintf("%s leaves this cluster to Rancher Turtles; to import the cluster here, set annotation %s on it to %q",
		s.assigned.where, archelonv1.ManagedByAnnotation, archelonv1.ManagedByArchelon))
}
