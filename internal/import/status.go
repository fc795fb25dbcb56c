package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Reasons of Events that are not condition reasons.
const (
	createdEvent    = "RancherClusterCreated"
	unimportedEvent = "Unimported"
	adoptedEvent    = "Adopted"
)

// finish publishes how a reconcile ended and tells the queue what comes next.
func (r *Reconciler) finish(ctx context.Context, s *scope, out outcome.Outcome) (ctrl.Result, error) {
	r.publishDeeds(s)
	if out.Kind == outcome.KindFail && apierrors.IsConflict(out.Err) {
		row, lasted := r.conflicts.note(s.key(), r.Clock.Now())
		switch {
		case row <= conflictsAtOnce:
			// Somebody else was faster. That is no news for users.
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		case lasted < conflictPatience:
			return out.Result()
		}
		out.Message += conflictRemedy
	} else {
		r.conflicts.forget(s.key())
	}
	before := conditions.Get(s.cluster, archelonv1.RancherImportedCondition)
	after := conditionFor(s, out, before)
	if after != nil && !sameState(before, after) {
		r.stampTransition(before, after)
		r.told.note(s.cluster, after)
		if err := r.applyConditions(ctx, s.cluster, fieldOwner, *after); err != nil {
			return ctrl.Result{}, errors.Join(out.Err, fmt.Errorf("publishing condition %s: %w", archelonv1.RancherImportedCondition, err))
		}
		r.observeImport(s, before, after)
	}
	r.publishChange(s, out, before, after)
	return out.Result()
}

const conflictRemedy = "; writes have met nothing but conflicts for seconds: look whether an admission webhook refuses with code 409, whether somebody else writes the object all the time, and at the health of each API server"

// conditionFor returns the condition that the run calls for, or nil to leave it as it is.
func conditionFor(s *scope, out outcome.Outcome, before *metav1.Condition) *metav1.Condition {
	condition := &metav1.Condition{
		Type:               archelonv1.RancherImportedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             out.Reason,
		Message:            out.Message,
		ObservedGeneration: s.cluster.Generation,
	}
	switch {
	case s.intent == intentDelete && out.IsDone():
		return nil // The cluster may be gone.
	case s.intent == intentDelete && out.Kind == outcome.KindFail:
		condition.Reason = archelonv1.DeletingReason
	case out.IsDone() && s.intent == intentImport:
		condition.Status = metav1.ConditionTrue
		condition.Reason = archelonv1.ImportedReason
		condition.Message = withoutEffect(s)
		if s.waits != "" {
			condition.Reason, condition.Message = archelonv1.WaitingForTurnReason, s.waits
		}
		condition.Message = withRefusal(s, condition.Message)
	case out.IsDone():
		if before == nil {
			return nil // A cluster that has nothing to do with Rancher gets no condition.
		}
		condition.Reason = archelonv1.NotSelectedReason
		condition.Message = fmt.Sprintf("Label %s does not select this cluster; set it to \"true\" on the Cluster or its Namespace to import", archelonv1.ImportLabel)
	case out.Reason == archelonv1.PausedReason && (before == nil || before.Status == metav1.ConditionTrue):
		return nil // Being paused does not disconnect a cluster.
	case lookingAtAgent(out) && before != nil && before.Status == metav1.ConditionFalse:
		return nil // It lasts a moment; what comes of it is worth a write.
	}
	return condition
}

// lookingAtAgent reports whether a job in the workload cluster has only just begun.
func lookingAtAgent(out outcome.Outcome) bool {
	return out.Kind == outcome.KindWait && (out.Reason == archelonv1.ConnectingAgentReason || out.Reason == archelonv1.AgentDisconnectedReason)
}

func sameState(before, after *metav1.Condition) bool {
	return before != nil && before.Status == after.Status && before.Reason == after.Reason && before.Message == after.Message
}

// applyConditions writes conditions and nothing else, by server-side apply: the list belongs to CAPI. Conditions that the owner applied earlier
// and does not now are removed. The UID keeps the write from a successor of the same name.
func (r *Reconciler) applyConditions(ctx context.Context, cluster *clusterv1.Cluster, owner string, after ...metav1.Condition) error {
	list := make([]any, 0, len(after))
	for _, condition := range after {
		list = append(list, map[string]any{
			"type":               condition.Type,
			"status":             string(condition.Status),
			"reason":             condition.Reason,
			"message":            condition.Message,
			"observedGeneration": condition.ObservedGeneration,
			"lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	apply := &unstructured.Unstructured{Object: map[string]any{}}
	if len(list) > 0 {
		apply.Object["status"] = map[string]any{"conditions": list}
	}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	apply.SetNamespace(cluster.Namespace)
	apply.SetName(cluster.Name)
	apply.SetUID(cluster.UID)
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.writes.note(apply)
	return nil
}

// stampTransition gives a condition the time of its last transition.
func (r *Reconciler) stampTransition(before, after *metav1.Condition) {
	after.LastTransitionTime = metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	if before != nil && before.Status == after.Status {
		after.LastTransitionTime = before.LastTransitionTime
	}
}

// publishDeeds says what this run did, however it ended: the next run does not know of it.
func (r *Reconciler) publishDeeds(s *scope) {
	if s.created {
		r.event(s, corev1.EventTypeNormal, createdEvent, "Created the %s", s.record)
	}
	if s.adopted {
		r.event(s, corev1.EventTypeNormal, adoptedEvent, "Took the record of Rancher Turtles over, with its registration")
	}
	if s.removed {
		r.event(s, corev1.EventTypeNormal, archelonv1.RemovedInRancherReason,
			`The Rancher cluster was deleted in Rancher; set annotation "imported" so that it is not imported again`)
	}
}

// publishChange says what changed in the condition, once.
func (r *Reconciler) publishChange(s *scope, out outcome.Outcome, before, after *metav1.Condition) {
	if after == nil || sameReason(before, after) {
		return
	}
	switch {
	case after.Status == metav1.ConditionTrue && before != nil && before.Status == metav1.ConditionTrue:
		// It was connected all the time, and waits for its turn to change over, or does no more.
	case after.Status == metav1.ConditionTrue:
		r.event(s, corev1.EventTypeNormal, archelonv1.ImportedReason, "Rancher reports the cluster as connected")
	case s.intent == intentUnimport && out.IsDone():
		r.event(s, corev1.EventTypeNormal, unimportedEvent, "Deleted the Rancher cluster because the import label is false")
	case troubled(out):
		r.event(s, corev1.EventTypeWarning, after.Reason, "%s", after.Message)
	}
}

// troubled reports whether the outcome deserves a warning: it is neither progress nor what the user chose.
func troubled(out outcome.Outcome) bool {
	switch out.Reason {
	case archelonv1.RemovedInRancherReason, archelonv1.HandedToTurtlesReason, archelonv1.WaitingForAgentReason, archelonv1.WaitingForRancherReason, archelonv1.WaitingForCleanupReason:
		return false
	case archelonv1.AgentDisconnectedReason:
		return true
	}
	return out.Kind == outcome.KindStall || out.Kind == outcome.KindFail || out.Kind == outcome.KindPoll ||
		out.Kind == outcome.KindWait && out.Err != nil
}

func sameReason(before, after *metav1.Condition) bool {
	return before != nil && before.Status == after.Status && before.Reason == after.Reason
}

// maxNote is what the API server accepts as the note of an Event, in bytes. A longer one would be lost.
const maxNote = 1024

func (r *Reconciler) event(s *scope, kind, reason, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-len("...")], "") + "..."
	}
	r.Recorder.Eventf(s.cluster, nil, kind, reason, "Import", "%s", note)
}

// importBegins is how long after its record was made a cluster can get its first condition, in doubt by clocks that differ.
const importBegins = time.Minute

// observeImport measures how long an import took, from the making of the record to its first connection. A condition that became False
// later than the record was made tells of a connection that was lost, or of a record that was taken over: their age says nothing.
func (r *Reconciler) observeImport(s *scope, before, after *metav1.Condition) {
	if after.Status != metav1.ConditionTrue || before == nil || s.record == nil {
		return
	}
	made := s.record.GetCreationTimestamp().Time
	if before.LastTransitionTime.Sub(made) > importBegins {
		return
	}
	switch before.Reason {
	case archelonv1.WaitingForRancherReason, archelonv1.ConnectingAgentReason, archelonv1.WaitingForAgentReason:
		r.Metrics.imported(s.record.strategy.Kind(), r.Clock.Now().Sub(made))
	}
}
