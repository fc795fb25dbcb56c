package importer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// intent is what a reconcile sets out to do.
type intent int

const (
	// intentPause does nothing: the cluster is paused.
	intentPause intent = iota
	// intentDelete removes the record because the CAPI cluster goes.
	intentDelete
	// intentUnimport removes the record because the import label says so.
	intentUnimport
	// intentHandOver leaves the record to Rancher Turtles.
	intentHandOver
	// intentImport makes the record, or keeps it.
	intentImport
	// intentIdle leaves a cluster alone that is neither selected nor imported.
	intentIdle
)

// phase is one step towards an intent.
type phase struct {
	name string
	run  func(context.Context, *scope) outcome.Outcome
}

// plan lists the phases of an intent in their order.
func (r *Reconciler) plan(i intent) []phase {
	switch i {
	case intentPause:
		return []phase{{"pause", r.pause}}
	case intentDelete, intentUnimport:
		return []phase{
			{"take-over", r.takeOver},
			{"delete-records", r.deleteRecords},
			{"release-cluster", r.releaseCluster},
		}
	case intentHandOver:
		return []phase{
			{"take-over", r.takeOver},
			{"hand-over", r.handOver},
			{"release-cluster", r.releaseCluster},
			{"handed-over", r.confirmHandOver},
		}
	case intentImport:
		return []phase{
			{"take-over", r.takeOver},
			{"removal", r.observeRemoval},
			{"selection", r.checkSelection},
			{"permission", r.checkPermission},
			{"turtles", r.checkTurtles},
			{"principal", r.checkPrincipal},
			{"adopt", r.adopt},
			{"neighbours", r.checkNeighbours},
			{"control-plane", r.waitForControlPlane},
			{"namesake", r.checkNamesake},
			{"turn", r.awaitTurn},
			{"claim", unlessWaiting(r.claim)},
			{"migrate", unlessWaiting(r.deleteOtherKinds)},
			{"record", unlessWaiting(r.ensureRecord)},
			{"sync", r.syncRecord},
			{"management", r.findManagement},
			{"display-name", r.checkDisplayName},
			{"sync-management", r.syncManagement},
			{"agent", r.connectAgent},
			{"switched", unlessWaiting(r.endSwitch)},
		}
	default:
		return []phase{
			{"removal", r.observeRemoval},
			{"selection", r.checkSelection},
		}
	}
}

// intend decides what to do. Deletion and the user's "false" come before everything; a missing
// label leaves things as they are, so what is imported stays imported.
func intend(s *scope, want choice) intent {
	imported := s.cluster.Annotations[archelonv1.RecordAnnotation] != "" || holds(s.cluster) || s.hasRecord()
	switch {
	case paused(s.cluster):
		return intentPause
	case !s.cluster.DeletionTimestamp.IsZero():
		return intentDelete
	case s.assigned.to == archelonv1.ManagedByTurtles && (imported || want == include):
		return intentHandOver
	case want == exclude && imported:
		return intentUnimport
	case want == include || imported:
		return intentImport
	default:
		return intentIdle
	}
}

func paused(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Spec.Paused, false) || annotations.HasPaused(cluster)
}

// holds reports whether the cluster carries the finalizer of the import.
func holds(cluster *clusterv1.Cluster) bool { return hold.Import.On(cluster) }

// hasRecord reports whether a record was made for this very cluster and is not going.
func (s *scope) hasRecord() bool {
	for _, record := range s.records {
		if record.madeFor(s.cluster) && !record.deleting() {
			return true
		}
	}
	return false
}

func (r *Reconciler) pause(context.Context, *scope) outcome.Outcome {
	return outcome.Wait(archelonv1.PausedReason, "The CAPI cluster is paused; the import goes on when it is resumed")
}

// checkSelection stops where the import label cannot be read.
func (r *Reconciler) checkSelection(_ context.Context, s *scope) outcome.Outcome {
	if s.problem != nil {
		return outcome.Stall(archelonv1.InvalidImportLabelReason, s.problem.Error())
	}
	return outcome.Done()
}

// checkPermission stops where the "imported" annotation forbids a new import.
func (r *Reconciler) checkPermission(ctx context.Context, s *scope) outcome.Outcome {
	_, blocked := s.cluster.Annotations[archelonv1.ImportedAnnotation]
	if blocked && !s.hasRecord() && holds(s.cluster) {
		// The annotation may have been there all the time, and the record only have lost the label by which the cache knows it.
		if err := r.findNamed(ctx, s); err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, err)
		}
		if out := r.observeRemoval(ctx, s); !out.IsDone() {
			return out
		}
	}
	if blocked && !s.hasRecord() {
		r.forget(s.key())
		return outcome.Stall(archelonv1.RemovedInRancherReason,
			`The annotation "imported" keeps this cluster out of Rancher; it is set when the Rancher cluster is deleted in Rancher. Remove the annotation to import again`)
	}
	return outcome.Done()
}

// waitForControlPlane waits until the workload cluster can be expected to answer. A record that exists is followed
// whatever the control plane does; only making one needs it.
func (r *Reconciler) waitForControlPlane(_ context.Context, s *scope) outcome.Outcome {
	if s.hasRecord() || controlPlaneUp(s.cluster) {
		return outcome.Done()
	}
	return outcome.Wait(archelonv1.WaitingForControlPlaneReason, "The control plane is not available yet")
}

// controlPlaneUp prefers the ControlPlaneAvailable condition; control planes that report none, or
// Unknown, count as up once they were initialized.
func controlPlaneUp(cluster *clusterv1.Cluster) bool {
	if available := conditions.Get(cluster, clusterv1.ClusterControlPlaneAvailableCondition); available != nil {
		switch available.Status {
		case metav1.ConditionTrue:
			return true
		case metav1.ConditionFalse:
			return false
		}
	}
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}
