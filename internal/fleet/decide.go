package fleet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/providers/capi"
)

// Decision is what a run is to do.
type Decision struct {
	// Action is nil if there is nothing to write.
	Action Action
	// Event is what people are told, nil for nothing.
	Event *Event
}

// Event is news of a Cluster.
type Event struct{ Type, Reason, Note string }

// Decide says what to do. It is pure.
func Decide(o Observation, now time.Time) Decision {
	if o.Cluster == nil || !o.Ours || !o.Cluster.DeletionTimestamp.IsZero() || annotations.IsPaused(o.Cluster, o.Cluster) {
		return Decision{}
	}
	before := meta.FindStatusCondition(o.Cluster.GetConditions(), archelonv1.FleetEngagedCondition)
	switch {
	case !o.Member && before == nil, before == nil && begins(o.Status.Reason):
		return Decision{} // A Cluster that the fleet has not met gets no condition.
	case o.Member && begins(o.Status.Reason):
		return Decision{} // This process has just begun; what comes of it is worth a write.
	case !o.Member:
		return Decision{Action: publish{cluster: o.Cluster}}
	}
	after := conditionOf(o, before, now)
	if before != nil && before.Status == after.Status && before.Reason == after.Reason && before.Message == after.Message {
		return Decision{}
	}
	d := Decision{Action: publish{cluster: o.Cluster, condition: after}}
	if before == nil || before.Status != after.Status || before.Reason != after.Reason {
		d.Event = eventOf(o.Status, before)
	}
	return d
}

// begins is whether a reason says that nothing is known yet.
func begins(reason string) bool {
	return reason == capi.NotProvisionedReason || reason == capi.ConnectingReason || reason == capi.SyncingReason
}

// conditionOf says where the engagement stands. True is that controllers work with the cluster, whether or not all of
// it works; the message names the state.
func conditionOf(o Observation, before *metav1.Condition, now time.Time) *metav1.Condition {
	after := &metav1.Condition{
		Type: archelonv1.FleetEngagedCondition, Status: metav1.ConditionFalse, Reason: o.Status.Reason,
		Message: string(o.Status.State), ObservedGeneration: o.Cluster.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if o.Status.State == capi.Engaged || o.Status.State == capi.Degraded {
		after.Status = metav1.ConditionTrue
	}
	if o.Status.Message != "" {
		after.Message += ": " + o.Status.Message
	}
	if after.Reason != capi.EngagedReason {
		after.Message = docs.See(after.Message, docs.FleetEngaged)
	}
	if before != nil && before.Status == after.Status {
		after.LastTransitionTime = before.LastTransitionTime
	}
	return after
}

// eventOf tells what people want to know: that a cluster is there, that it is not any more, and what does not work.
func eventOf(status capi.Status, before *metav1.Condition) *Event {
	switch status.State {
	case capi.Engaged:
		return &Event{corev1.EventTypeNormal, status.Reason, "Connected to the workload cluster. Controllers can use it"}
	case capi.Degraded, capi.Disconnected:
		return &Event{corev1.EventTypeWarning, status.Reason, string(status.State) + ": " + status.Message}
	case capi.Connecting, capi.Pending:
		if before != nil {
			return &Event{corev1.EventTypeWarning, status.Reason, string(status.State) + ": " + status.Message}
		}
	}
	return nil
}
