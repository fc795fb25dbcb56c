package importer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// switching reports whether the cluster has begun to change over to another kind of record and has not come back yet.
func switching(cluster *clusterv1.Cluster) bool {
	return cluster.Annotations[archelonv1.StrategySwitchAnnotation] != ""
}

// outdated returns the record that the active strategy would replace, nil if there is none.
func (s *scope) outdated(active Strategy) *record {
	for i := range s.records {
		if record := &s.records[i]; record.strategy != active && record.madeFor(s.cluster) && !record.deleting() {
			return record
		}
	}
	return nil
}

// awaitTurn lets a cluster with a record of another kind change over when it has a slot. Only one that is connected and
// has a control plane gets any: another one would not come back either, and keep its slot. Until then the phases that
// follow work on the record that there is.
func (r *Reconciler) awaitTurn(ctx context.Context, s *scope) outcome.Outcome {
	old := s.outdated(r.Active)
	if old == nil || switching(s.cluster) {
		return outcome.Done()
	}
	s.record, s.waits = old, turnMessage(old, r.Active)
	if out := r.findManagement(ctx, s); !out.IsDone() || !s.management.connected || !controlPlaneUp(s.cluster) {
		return r.followOld(ctx, s) // What is wrong a later phase says.
	}
	if err := r.turns.rebuild(ctx, func() ([]types.NamespacedName, error) { return r.listSwitching(ctx) }); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	if s.queued = true; !r.turns.take(ctx, s.key()) {
		return r.followOld(ctx, s)
	}
	switch twin, err := r.twinOf(ctx, old); {
	case err != nil:
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	case twin:
		s.queued = false
		return heldByTwin(old)
	}
	s.record, s.management, s.waits, s.replaces = nil, nil, "", old
	return outcome.Done()
}

// followOld has the cluster name the record that it has. It may name one of the new kind, of a change over that was
// called off.
func (r *Reconciler) followOld(ctx context.Context, s *scope) outcome.Outcome {
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		r.hold(cluster, s.record.id())
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("naming the record: %w", err))
	}
	return outcome.Done()
}

// unlessWaiting skips a phase that makes or replaces records while the cluster waits for its turn.
func unlessWaiting(run func(context.Context, *scope) outcome.Outcome) func(context.Context, *scope) outcome.Outcome {
	return func(ctx context.Context, s *scope) outcome.Outcome {
		if s.waits != "" {
			return outcome.Done()
		}
		return run(ctx, s)
	}
}

// endSwitch takes the mark off a cluster that has come back.
func (r *Reconciler) endSwitch(ctx context.Context, s *scope) outcome.Outcome {
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		delete(cluster.Annotations, archelonv1.StrategySwitchAnnotation)
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("noting the end of the change of strategy: %w", err))
	}
	return outcome.Done()
}

// markSwitch writes down that the cluster changes over, together with what begins that. A mark on a cluster that was
// not imported is somebody else's.
func (s *scope) markSwitch(cluster *clusterv1.Cluster) {
	switch {
	case s.replaces != nil:
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.StrategySwitchAnnotation, s.replaces.id())
	case !holds(cluster):
		delete(cluster.Annotations, archelonv1.StrategySwitchAnnotation)
	}
}

// noteTurn keeps the slot of a cluster that changes over, and the place of one that waits. Any other gives up what it
// has: it has come back, is paused, deleted or un-imported, or something else has to end first.
func (r *Reconciler) noteTurn(ctx context.Context, s *scope, out outcome.Outcome) {
	switch {
	case s.intent == intentImport && switching(s.cluster) && out.Reason != archelonv1.RemovedInRancherReason:
		r.turns.keep(s.key())
	case s.queued, r.writes.ahead(s.cluster):
	default:
		r.turns.leave(ctx, s.key())
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
func (r *Reconciler) holdsTurn(cluster *clusterv1.Cluster) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return switching(cluster) && holds(cluster) && cluster.DeletionTimestamp.IsZero() && !paused(cluster) &&
		r.Claim.Covers(cluster) && emptyOr(by, r.Self.String())
}

// turnMessage is the same for all limits, so that a change of the limit writes to no cluster.
func turnMessage(old *record, active Strategy) string {
	return fmt.Sprintf("Rancher reports the cluster as connected. The %s is to be replaced by one of the kind %s and waits for its turn: "+
		"flag --strategy-switch-concurrency says how many are replaced at the same time, 0 stops it", old, active.Kind())
}
