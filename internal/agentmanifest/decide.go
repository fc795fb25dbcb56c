package agentmanifest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/internal/outcome"
)

// A Secret that has the name and does not belong to the Cluster is looked at again, because Archelon does not receive
// Secrets without CAPI's label. Each time is as long as it has been there already, within these.
const (
	takenRetry    = time.Minute
	takenRetryMax = time.Hour
)

// Decision is what a run is to do.
type Decision struct {
	// Action comes first. What came of it is in the next observation.
	Action Action
	// Publish is nil if the condition is as it has to be.
	Publish Action
	// Event is what users read, nil for nothing.
	Event *Event
	// Outcome is how the run ends.
	Outcome outcome.Outcome
}

// Event is news of a Cluster.
type Event struct{ Type, Reason, Note string }

// Decide says what to do. It is pure.
func Decide(o Observation, now time.Time) Decision {
	if o.Cluster == nil || !o.Ours || annotations.IsPaused(o.Cluster, o.Cluster) {
		return Decision{}
	}
	if !o.Cluster.DeletionTimestamp.IsZero() {
		return end(o)
	}
	manual, err := agent.ManualDelivery(o.Cluster.Annotations)
	switch {
	case err != nil:
		return Decision{} // The import says so. A slip does not delete the Secret.
	case !manual, o.ended():
		return withdraw(o, now)
	case o.Management == nil || !o.begun():
		if o.Secret != nil && o.Before != nil {
			return Decision{} // The import is interrupted, and its condition says why.
		}
		return publishing(o, now, outcome.Wait(WaitingReason,
			"Waiting for the import of this Cluster, which has no Rancher cluster yet that an agent can connect to. See condition RancherImported"))
	case o.Problem != nil:
		out := outcome.FromError(o.Problem, FailedReason)
		if out.Reason == TakenReason {
			out.After = takenAgain(o.Before, now)
		}
		return publishing(o, now, out)
	case o.Secret == nil || o.Secret.Annotations[archelonv1.ManifestInputAnnotation] != o.Input:
		return Decision{Action: deliver{
			cluster: o.Cluster, management: o.Management.Name, input: o.Input, settings: o.Settings, known: o.Secret != nil,
		}}
	default:
		return publishing(o, now, outcome.Done())
	}
}

// begun reports whether the import is so far that an agent may connect.
func (o Observation) begun() bool {
	if o.Import == nil {
		return false
	}
	switch o.Import.Reason {
	case archelonv1.ImportedReason, archelonv1.WaitingForAgentReason, archelonv1.AgentDisconnectedReason:
		return true
	default:
		return false
	}
}

// ended reports whether the Cluster is not imported any more.
func (o Observation) ended() bool {
	if o.Import == nil || o.Management != nil {
		return false
	}
	return o.Import.Reason == archelonv1.NotSelectedReason || o.Import.Reason == archelonv1.RemovedInRancherReason
}

// withdraw deletes the Secret, and then the condition.
func withdraw(o Observation, now time.Time) Decision {
	if o.delivered() {
		return Decision{Action: remove{cluster: o.Cluster}}
	}
	return publishing(o, now, outcome.Outcome{Kind: outcome.KindWait})
}

// end deletes the Secret of a Cluster that is being deleted. Kubernetes deletes it only after all of its owners, and
// Cluster API adds a ClusterResourceSet that applies it to them.
func end(o Observation) Decision {
	if o.delivered() {
		return Decision{Action: remove{cluster: o.Cluster}}
	}
	return Decision{}
}

// delivered reports whether there is a Secret that looks like one of ours. Its deletion checks that it is.
func (o Observation) delivered() bool {
	return o.Secret != nil && o.Secret.Annotations[archelonv1.ManifestInputAnnotation] != ""
}

// takenAgain is as long as the name has been taken already, which needs no memory.
func takenAgain(before *metav1.Condition, now time.Time) time.Duration {
	if before == nil || before.Reason != TakenReason {
		return takenRetry
	}
	return min(max(now.Sub(before.LastTransitionTime.Time), takenRetry), takenRetryMax)
}

// publishing writes the condition for an outcome, or deletes it if the outcome has no reason.
func publishing(o Observation, now time.Time, out outcome.Outcome) Decision {
	d := Decision{Outcome: out}
	after := &metav1.Condition{
		Type: archelonv1.AgentManifestCondition, Status: metav1.ConditionFalse, Reason: out.Reason, Message: out.Message,
		ObservedGeneration: o.Cluster.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	switch {
	case out.IsDone():
		after.Status, after.Reason = metav1.ConditionTrue, ReadyReason
		after.Message = fmt.Sprintf("Secret %s has the manifest of Rancher's agent in key %s. Apply it in the workload cluster",
			secretOf(client.ObjectKeyFromObject(o.Cluster)), ManifestKey)
	case out.Reason == "" && o.Before == nil:
		return d
	case out.Reason == "":
		d.Publish = publish{cluster: o.Cluster}
		return d
	}
	if after.Status == metav1.ConditionFalse {
		after.Message = docs.See(after.Message, docs.AgentManifest)
	}
	before := o.Before
	if before != nil && before.Status == after.Status && before.Reason == after.Reason {
		after.LastTransitionTime = before.LastTransitionTime
		if before.Message == after.Message {
			return d
		}
	}
	d.Publish = publish{cluster: o.Cluster, condition: after}
	if before == nil || before.Reason != after.Reason {
		d.Event = eventOf(after, out)
	}
	return d
}

// eventOf returns what users want to read, and nothing of what passes by itself.
func eventOf(after *metav1.Condition, out outcome.Outcome) *Event {
	switch {
	case out.IsDone():
		return &Event{corev1.EventTypeNormal, after.Reason, after.Message}
	case out.Kind == outcome.KindWait:
		return nil
	default:
		return &Event{corev1.EventTypeWarning, after.Reason, after.Message}
	}
}
