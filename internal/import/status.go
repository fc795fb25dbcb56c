package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Reasons of Events that are not condition reasons.
const (
	unimportedEvent = "Unimported"
	adoptedEvent    = "Adopted"
)

// finish publishes how a run ended and tells the queue what comes next.
func (r *Reconciler) finish(ctx context.Context, o *Observation, d Decision) (ctrl.Result, error) {
	d.Outcome = namedConversion(d.Outcome)
	out := d.Outcome
	if o.cluster == nil || d.Intent == intentNothing || d.Intent == intentLeave && out.IsDone() {
		return out.Result()
	}
	if !out.IsDone() {
		r.Metrics.stopped(d.Phase, out)
		ctrl.LoggerFrom(ctx).V(1).Info("Stopped", "phase", d.Phase, "outcome", out.Kind.String(), "reason", out.Reason)
	}
	if d.connected {
		r.jobs.Connected(o.key)
		r.forget(o.key)
	}
	r.publishDeeds(o)
	contested := out.Kind == outcome.KindFail && apierrors.IsConflict(out.Err)
	if contested {
		row, lasted := r.conflicts.note(o.key, r.Clock.Now())
		switch {
		case row <= conflictsAtOnce:
			// Somebody else was faster. That is no news for users.
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		case lasted < conflictPatience:
			return out.Result()
		}
		d.Outcome.Message += conflictRemedy
	}
	left, err := r.publish(ctx, o, d)
	switch {
	case errors.Is(err, condition.ErrOvertaken):
		// What the condition says has to be decided anew.
		if row, _ := r.conflicts.note(o.key, r.Clock.Now()); row <= conflictsAtOnce {
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		}
		fallthrough
	case err != nil:
		return ctrl.Result{}, errors.Join(out.Err, err)
	case !contested:
		r.conflicts.forget(o.key)
	}
	result, err := out.Result()
	if left > 0 && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
		result.RequeueAfter = left
	}
	return result, err
}

// publish writes the condition that a run calls for, if it is another one, and tells what has changed. It returns for
// how much longer the condition can be told later.
func (r *Reconciler) publish(ctx context.Context, o *Observation, d Decision) (time.Duration, error) {
	read, uid := meta.FindStatusCondition(o.cluster.GetConditions(), archelonv1.RancherImportedCondition), o.cluster.UID
	untold := r.steps.of(uid)
	before := read
	if untold != nil {
		before = untold
	}
	after := conditionFor(o, d, before)
	switch {
	case after == nil && lookingAtAgent(d.Outcome):
		after = untold
	case after != nil && sameState(before, after):
		after = before
	case after != nil:
		r.stampTransition(before, after)
	}
	var left time.Duration
	switch {
	case after == nil || sameState(read, after):
		r.steps.forget(uid)
	case requoted(d, read, after):
		left = r.steps.note(uid, after, r.Clock.Now(), quotePatience)
	case passing(d, read, after):
		left = r.steps.note(uid, after, r.Clock.Now(), r.steps.patience())
	}
	if after != nil && !sameState(read, after) && left <= 0 {
		r.told.note(o.cluster, after)
		if err := r.applyCondition(ctx, o.cluster, after); err != nil {
			// It may be there all the same: then its event has the cluster looked at again, which may have changed since.
			r.told.forget(o.key)
			if text := controller.ConversionFailure(err); text != "" {
				// The condition cannot say it.
				r.event(o, corev1.EventTypeWarning, archelonv1.ConversionWebhookFailedReason, "%s", conversionRemedy(text))
			}
			return 0, fmt.Errorf("publishing condition %s: %w", archelonv1.RancherImportedCondition, err)
		}
		r.steps.forget(uid)
		if !createdEarly(o.cluster, d.record) {
			r.observeImport(d.record, before, after)
		}
	}
	r.publishChange(o, d, before, after)
	return left, nil
}

const conflictRemedy = ". All updates have failed with conflicts for seconds. Likely causes: another controller keeps writing the object (see its managedFields), " +
	"or an admission webhook answers with code 409"

// conditionFor returns the condition that the run calls for, or nil to leave it as it is.
func conditionFor(o *Observation, d Decision, before *metav1.Condition) *metav1.Condition {
	out := d.Outcome
	next := &metav1.Condition{
		Type:               archelonv1.RancherImportedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             out.Reason,
		Message:            out.Message,
		ObservedGeneration: o.cluster.Generation,
	}
	switch {
	case d.Intent == intentDelete && out.IsDone():
		return nil // The cluster may be gone.
	case d.Intent == intentDelete && out.Kind == outcome.KindFail:
		next.Reason = archelonv1.DeletingReason
	case out.IsDone() && d.Intent == intentImport:
		next.Status = metav1.ConditionTrue
		next.Reason = archelonv1.ImportedReason
		next.Message = withoutEffect(o.cluster, d.findings)
		next.Message = withRefusal(o.refused(), next.Message)
	case out.IsDone():
		if before == nil {
			return nil // A cluster that has nothing to do with Rancher gets no condition.
		}
		next.Reason = archelonv1.NotSelectedReason
		next.Message = fmt.Sprintf("Not imported: no label selects this Cluster. To import it, set label %s to \"true\" on this Cluster or on its Namespace", archelonv1.ImportLabel)
	case out.Reason == archelonv1.PausedReason && (before == nil || before.Status == metav1.ConditionTrue):
		return nil // Being paused does not disconnect a cluster.
	case lookingAtAgent(out) && before != nil && before.Status == metav1.ConditionFalse:
		return nil // It lasts a moment; what comes of it is worth a write.
	}
	if next.Status == metav1.ConditionFalse {
		next.Message = docs.See(next.Message, docs.Reason(next.Reason))
	}
	return next
}

// lookingAtAgent reports whether a job in the workload cluster has only just begun.
func lookingAtAgent(out outcome.Outcome) bool {
	return out.Kind == outcome.KindWait && (out.Reason == archelonv1.ConnectingAgentReason || out.Reason == archelonv1.AgentDisconnectedReason)
}

// passing reports whether a condition can be told a moment later: the import goes on well, and users read nothing else
// of it.
func passing(d Decision, read, next *metav1.Condition) bool {
	return next.Status == metav1.ConditionFalse && slices.Contains(onTheWay, next.Reason) &&
		(d.Outcome.Kind == outcome.KindWait || d.Outcome.Kind == outcome.KindPoll) && !troubled(d.Outcome) &&
		(read == nil || read.Status == metav1.ConditionFalse && slices.Contains(onTheWay, read.Reason))
}

// requoted reports whether a condition says what was said before, and Cluster API another thing.
func requoted(d Decision, read, next *metav1.Condition) bool {
	return read != nil && sameReason(read, next) && onlyQuoteDiffers(read.Message, next.Message, d.quoted)
}

// stampTransition gives a condition the time of its last transition.
func (r *Reconciler) stampTransition(before, after *metav1.Condition) {
	after.LastTransitionTime = metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	if before != nil && before.Status == after.Status {
		after.LastTransitionTime = before.LastTransitionTime
	}
}

// publishDeeds says what this run did, however it ended: the next run does not know of it.
func (r *Reconciler) publishDeeds(o *Observation) {
	if o.adopted {
		r.event(o, corev1.EventTypeNormal, adoptedEvent, "Adopted the Rancher cluster of Rancher Turtles, with its registration")
	}
	if o.abandoned != nil {
		r.event(o, corev1.EventTypeWarning, archelonv1.RancherClusterNameTakenReason,
			"Did not delete the %s, because Rancher would also delete the CAPI Cluster of the same name", o.abandoned)
	}
	if o.removed {
		text := "The Rancher cluster was deleted in Rancher. Archelon added annotation imported=true to this Cluster, so that it is not imported again. " +
			"Remove the annotation to import again"
		if !isKeptOut(o.cluster.Annotations) {
			text = "The Rancher cluster was deleted in Rancher. Archelon imports this Cluster again, because annotation " + archelonv1.KeptOutAnnotation + " is \"false\""
		}
		r.event(o, corev1.EventTypeNormal, archelonv1.RemovedInRancherReason, "%s", text)
	}
}

// publishChange says what changed in the condition, once.
func (r *Reconciler) publishChange(o *Observation, d Decision, before, after *metav1.Condition) {
	if after == nil || sameReason(before, after) {
		return
	}
	switch {
	case after.Status == metav1.ConditionTrue && before != nil && before.Status == metav1.ConditionTrue:
		// It was connected all the time.
	case after.Status == metav1.ConditionTrue:
		r.event(o, corev1.EventTypeNormal, archelonv1.ImportedReason, "%s", connectedAs(d.record))
	case d.Intent == intentUnimport && d.Outcome.IsDone():
		r.event(o, corev1.EventTypeNormal, unimportedEvent, "Deleted the Rancher cluster, because the import label is false")
	case troubled(d.Outcome):
		r.event(o, corev1.EventTypeWarning, after.Reason, "%s", after.Message)
	}
}

// connectedAs says under which name Rancher has the cluster.
func connectedAs(record *record) string {
	if record == nil {
		return "Connected to Rancher"
	}
	return fmt.Sprintf("Connected to Rancher as %s", record)
}

// troubled reports whether the outcome deserves a warning: it is neither progress nor what the user chose.
func troubled(out outcome.Outcome) bool {
	switch out.Reason {
	case archelonv1.RemovedInRancherReason, archelonv1.AssignedToTurtlesReason, archelonv1.WaitingForAgentReason, archelonv1.WaitingForRancherReason, archelonv1.WaitingForCleanupReason:
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

func (r *Reconciler) event(o *Observation, kind, reason, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-len("...")], "") + "..."
	}
	r.Recorder.Eventf(o.cluster, nil, kind, reason, "Import", "%s", note)
}

// importBegins is how long after its record was made a cluster can get its first condition, in
// doubt by clocks that differ.
const importBegins = time.Minute

// observeImport measures how long an import took, from the making of the record to its first connection. A condition
// that became False later than the record was made tells of a connection that was lost, or of a record that was taken
// over: their age says nothing.
func (r *Reconciler) observeImport(made *record, before, after *metav1.Condition) {
	if after.Status != metav1.ConditionTrue || before == nil || made == nil {
		return
	}
	created := made.GetCreationTimestamp().Time
	if before.LastTransitionTime.Sub(created) > importBegins {
		return
	}
	switch before.Reason {
	case archelonv1.WaitingForRancherReason, archelonv1.ConnectingAgentReason, archelonv1.WaitingForAgentReason,
		archelonv1.AgentUnschedulableReason, archelonv1.AgentPodsRefusedReason, archelonv1.AgentImageUnavailableReason,
		archelonv1.AgentCrashingReason, archelonv1.AgentCannotReachRancherReason:
		r.Metrics.imported(made.strategy.Kind(), r.Clock.Now().Sub(created))
	}
}
