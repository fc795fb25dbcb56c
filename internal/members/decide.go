package members

import (
	"fmt"
	"slices"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Times after which a binding is tried again that no watch tells of.
const (
	// pendingRetry: Rancher creates the namespace of a cluster within seconds.
	pendingRetry = 5 * time.Second
	// refusedRetry: the answer follows from role templates, and from permissions of this program, which administrators
	// change by hand. Each time is twice as long as the one before it.
	refusedRetry    = time.Minute
	refusedRetryMax = time.Hour
)

// Decision is what a run is to do.
type Decision struct {
	// Actions come first, in this order. What came of them is in the next observation.
	Actions []Action
	// Publish is nil if the condition is as it has to be.
	Publish Action
	// Event is what people are told, nil for nothing.
	Event *Event
	// Again is after how long the Cluster is looked at without an event, 0 for never.
	Again time.Duration
}

// Event is news of a Cluster.
type Event struct{ Type, Reason, Note string }

// Decide says what to do. It is pure.
func Decide(o Observation, policy Policy, now time.Time) Decision {
	if o.Cluster == nil || !o.Ours || !o.Cluster.DeletionTimestamp.IsZero() || annotations.IsPaused(o.Cluster, o.Cluster) {
		return Decision{}
	}
	members, err := parse(o.Cluster.Annotations[archelonv1.MembersAnnotation])
	switch {
	case err != nil:
		// A slip must not take everybody's roles away.
		return publishing(o, now, InvalidReason, "Annotation "+archelonv1.MembersAnnotation+" cannot be used: "+err.Error()+". Roles stay as they are until it is corrected")
	case len(members) == 0 && len(o.Bindings) == 0:
		return publishing(o, now, "", "")
	case len(o.Rancher) != 1 && len(members) == 0:
		return publishing(o, now, "", "") // They go with their Rancher cluster.
	case len(o.Rancher) != 1:
		return publishing(o, now, WaitingReason, "Waiting for the import of this Cluster. See condition RancherImported")
	}
	rancher := o.Rancher[0]
	wanted, flaws := divide(o, policy, rancher, members)
	if actions := steps(o, rancher, wanted); len(actions) > 0 {
		return Decision{Actions: actions}
	}
	if len(members) == 0 {
		return publishing(o, now, "", "")
	}
	return verdict(o, now, rancher, wanted, flaws)
}

// flaw is why a member of the annotation has no role.
type flaw struct {
	number int
	text   string
}

// divide returns the bindings of those members that are allowed, and what is wrong with the others.
func divide(o Observation, policy Policy, rancher string, members []Member) ([]*managementv3.ClusterRoleTemplateBinding, []flaw) {
	var wanted []*managementv3.ClusterRoleTemplateBinding
	var flaws []flaw
	for i, member := range members {
		switch {
		case !slices.Contains(policy.Roles, member.Role):
			flaws = append(flaws, flaw{i + 1, "its role template is not allowed. Use another one, or ask your administrator to allow it"})
		case !policy.allows(member):
			flaws = append(flaws, flaw{i + 1, "its group or user is not allowed. Use another one, or ask your administrator to allow it"})
		default:
			wanted = append(wanted, bindingFor(o.Cluster, rancher, member))
		}
	}
	return wanted, flaws
}

// steps are what takes away the bindings that are not wanted, or are not any more what they were created as, and
// creates those that are missing.
func steps(o Observation, rancher string, wanted []*managementv3.ClusterRoleTemplateBinding) []Action {
	var actions []Action
	for i := range o.Bindings {
		found := &o.Bindings[i]
		as := slices.ContainsFunc(wanted, func(w *managementv3.ClusterRoleTemplateBinding) bool { return same(w, found) })
		if !as && found.DeletionTimestamp.IsZero() {
			actions = append(actions, remove{found})
		}
	}
	named := map[string]bool{}
	for _, binding := range wanted {
		if named[binding.Name] || o.binding(rancher, binding.Name) != nil || o.Pending[binding.Name] || o.Refused[binding.Name] != "" {
			continue
		}
		named[binding.Name] = true
		actions = append(actions, create{binding})
	}
	return actions
}

// same reports whether a binding is what it was created as.
func same(a, b *managementv3.ClusterRoleTemplateBinding) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && a.ClusterName == b.ClusterName && memberOf(a) == memberOf(b)
}

// verdict says what became of the members. What needs a person comes first.
func verdict(o Observation, now time.Time, rancher string, wanted []*managementv3.ClusterRoleTemplateBinding, flaws []flaw) Decision {
	var refused []string
	pending := false
	for _, binding := range wanted {
		found := o.binding(rancher, binding.Name)
		pending = pending || o.Pending[binding.Name] || found != nil && !found.DeletionTimestamp.IsZero()
		if why := o.Refused[binding.Name]; why != "" {
			refused = append(refused, fmt.Sprintf("role template %s: %s", binding.RoleTemplateName, why))
		}
	}
	refused = slices.Compact(refused)
	switch {
	case len(refused) > 0:
		d := publishing(o, now, RefusedReason, "Rancher refused "+shortened(strings.Join(refused, "; "), maxRefusal))
		d.Again = refusedAgain(o.Before, now)
		return d
	case len(flaws) > 0:
		texts := make([]string, 0, len(flaws))
		for _, flaw := range flaws {
			texts = append(texts, fmt.Sprintf("Member %d has no role: %s", flaw.number, flaw.text))
		}
		return publishing(o, now, NotAllowedReason, strings.Join(texts, ". "))
	case pending:
		d := publishing(o, now, WaitingReason, "Waiting for Rancher to prepare the Rancher cluster, or to remove an earlier binding, usually less than a minute")
		d.Again = pendingRetry
		return d
	default:
		return publishing(o, now, BoundReason, "")
	}
}

// refusedAgain is as long as it has been so already, which needs no memory.
func refusedAgain(before *metav1.Condition, now time.Time) time.Duration {
	if before == nil || before.Reason != RefusedReason {
		return refusedRetry
	}
	return min(max(now.Sub(before.LastTransitionTime.Time), refusedRetry), refusedRetryMax)
}

// maxRefusal is how much is shown of what Rancher says.
const maxRefusal = 800

// publishing has the condition say a reason, or be gone without one.
func publishing(o Observation, now time.Time, reason, message string) Decision {
	before := o.Before
	if reason == "" {
		if before == nil {
			return Decision{}
		}
		return Decision{Publish: publish{cluster: o.Cluster}}
	}
	after := &metav1.Condition{
		Type: archelonv1.RancherMembersCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: o.Cluster.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if reason == BoundReason {
		after.Status = metav1.ConditionTrue
	}
	if before != nil && before.Status == after.Status {
		after.LastTransitionTime = before.LastTransitionTime
	}
	if before != nil && before.Status == after.Status && before.Reason == after.Reason && before.Message == after.Message {
		return Decision{}
	}
	d := Decision{Publish: publish{cluster: o.Cluster, condition: after}}
	if before == nil || before.Reason != after.Reason {
		d.Event = eventOf(reason, message)
	}
	return d
}

// eventOf tells what people want to know, and not what passes.
func eventOf(reason, message string) *Event {
	switch reason {
	case BoundReason:
		return &Event{corev1.EventTypeNormal, reason, "All members have their roles in the Rancher cluster"}
	case WaitingReason:
		return nil
	default:
		return &Event{corev1.EventTypeWarning, reason, shortened(message, maxNote)}
	}
}

// maxNote is what the API server accepts as the note of an Event.
const maxNote = 1024

func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("...")], "") + "..."
}
