package translation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
)

// Decision is what a run is to do.
type Decision struct {
	// Actions come first, in this order. What they do wakes the controller, which then publishes.
	Actions []Action
	// Report is what became of the credential; nil if there is none to report on.
	Report *Report
	// Condition is the condition Translated of the identity, nil if it is not ours.
	Condition *identityv1.Condition
}

// Report says what became of a credential. It has no secret.
type Report struct {
	// Reason is one of the reasons of the condition Translated.
	Reason string
	// Message says what is wrong and what to do; empty if nothing is.
	Message string
}

// maxReport is how long a report can be: it has to fit into an Event, and into what is kept of an annotation.
const maxReport = 900

func report(reason, format string, args ...any) *Report {
	message := fmt.Sprintf(format, args...)
	return &Report{Reason: reason, Message: message[:min(len(message), maxReport)]}
}

// String is the text of the annotation.
func (r *Report) String() string {
	if r.Message == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Message
}

// Decide says what to do. It is pure.
func Decide(o Observation, policy Policy, now time.Time) Decision {
	if removals := removals(o); len(removals) > 0 {
		return Decision{Actions: removals}
	}
	d := Decision{}
	switch {
	case o.wanted() == "":
		d.Condition = leftover(o)
	default:
		d.Report = problemOf(o, policy)
		if d.Report == nil {
			d.Actions = writes(o, policy)
			d.Report = done(o)
		}
		d.Condition = conditionOf(o, d.Report)
	}
	if d.Condition != nil {
		identity.Stamp(d.Condition, o.Identity.Condition(infrav1.TranslatedCondition), now)
	}
	return d
}

// removals are what is left of a credential that is gone, or has no key any more, and can go: first the identity when
// no cluster uses it, then the Secret when no other identity names it. The controller of identities says who uses the
// identity; before it has, nothing goes, unless a person who may write the identity has said that it may go.
func removals(o Observation) []Action {
	var actions []Action
	if o.obsolete(o.identityOwner()) {
		if o.Identity.DeletionTimestamp != nil || !o.removable() {
			return nil
		}
		actions = append(actions, removeIdentity{identity: o.Identity, credential: versionOf(o.Credential)})
	}
	if o.obsolete(o.secretOwner()) && o.Secret.DeletionTimestamp == nil && !o.Named {
		actions = append(actions, removeSecret{secret: o.Secret, credential: versionOf(o.Credential)})
	}
	return actions
}

// removable reports whether the identity may go. That no cluster uses it counts only where all that may are seen: the
// condition can be that of an instance which saw more, and has gone.
func (o Observation) removable() bool {
	if o.Identity.Annotations[infrav1.AllowDeletionAnnotation] == "true" {
		return true
	}
	inUse := o.Identity.Condition(identityv1.InUseCondition)
	return inUse != nil && inUse.Status == corev1.ConditionFalse && !o.Unseen
}

// problemOf says why a credential is not translated, nil if nothing is in the way. Nothing is written then: what was
// translated before stays.
func problemOf(o Observation, policy Policy) *Report {
	const remedy = "It was not changed. Rename or delete it. To let Archelon overwrite it, set label %s to %q on the Secret and on the OCIClusterIdentity"
	name := policy.Namespace + "/" + o.Credential.Name
	hint := fmt.Sprintf(remedy, infrav1.CredentialUIDLabel, o.Credential.UID)
	switch {
	case o.Content.Withdrawn && o.identityOwner() == ours:
		return report(infrav1.CredentialWithdrawnReason, "%s. Clusters still use the former key, or may use it. Archelon deletes the "+
			"OCIClusterIdentity and its Secret when condition %s of the identity is False, or when annotation %s of the identity is true",
			o.Content.Flaw, identityv1.InUseCondition, infrav1.AllowDeletionAnnotation)
	case o.Content.Flaw != "" && o.identityOwner() == ours:
		return report(identityv1.CredentialInvalidReason, "%s. The identity keeps its earlier credential", o.Content.Flaw)
	case o.Content.Flaw != "":
		return report(identityv1.CredentialInvalidReason, "%s", o.Content.Flaw)
	case o.secretOwner() == foreign:
		return report(infrav1.CollisionReason, "Secret %s exists already and does not belong to this cloud credential. %s", name, hint)
	case o.identityOwner() == foreign:
		return report(infrav1.CollisionReason,
			"OCIClusterIdentity %s exists already and does not belong to this cloud credential. %s", name, hint)
	case o.secretOwner() == earlier || o.identityOwner() == earlier:
		return report(infrav1.CollisionReason, "OCIClusterIdentity or Secret %s belongs to an earlier cloud credential "+
			"of this name, and clusters may use it. Archelon deletes it when condition %s of the identity is False. "+
			"To keep both for this cloud credential, set label %s to %q on both", name, identityv1.InUseCondition, infrav1.CredentialUIDLabel, o.Credential.UID)
	default:
		return nil
	}
}

// writes are what is missing or another than it should be. The Secret comes first: without it, the identity would be
// refused for a moment.
func writes(o Observation, policy Policy) []Action {
	var actions []Action
	if o.Secret == nil || !o.Content.Same {
		actions = append(actions, writeSecret{
			name: o.Credential.Name, credential: versionOf(o.Credential), replaces: versionOf(o.Secret),
		})
	}
	spec := policy.Spec(o.Credential.Name)
	switch {
	case o.Identity == nil:
		actions = append(actions, createIdentity{name: o.Credential.Name, credential: versionOf(o.Credential), spec: spec})
	case o.Identity.DeletionTimestamp == nil && !equality.Semantic.DeepEqual(o.Identity.Spec, spec):
		actions = append(actions, changeIdentity{before: o.Identity, spec: spec})
	}
	return actions
}

// done is the report on a credential with nothing in the way.
func done(o Observation) *Report {
	if o.Content.Regionless {
		return report(infrav1.RegionMissingReason,
			"No region is set, neither in the cloud credential nor in this installation, so CAPOCI needs one of its own. "+
				"Set annotation %s on the cloud credential to a region such as us-ashburn-1", infrav1.RegionAnnotation)
	}
	return report(infrav1.TranslatedReason, "")
}

// conditionOf is the condition of an identity that is ours.
func conditionOf(o Observation, report *Report) *identityv1.Condition {
	if o.identityOwner() != ours {
		return leftover(o)
	}
	condition := identityv1.Condition{
		Type: infrav1.TranslatedCondition, Status: corev1.ConditionTrue, Reason: report.Reason, Message: report.Message,
	}
	if report.Reason != infrav1.TranslatedReason && report.Reason != infrav1.RegionMissingReason {
		condition.Status, condition.Severity = corev1.ConditionFalse, identityv1.SeverityWarning
	}
	return &condition
}

// leftover is the condition of an identity whose credential is gone; nil for any other.
func leftover(o Observation) *identityv1.Condition {
	if o.identityOwner() != earlier {
		return nil
	}
	return &identityv1.Condition{
		Type: infrav1.TranslatedCondition, Status: corev1.ConditionFalse, Severity: identityv1.SeverityInfo,
		Reason: infrav1.CredentialGoneReason,
		Message: "The cloud credential was deleted, or is no longer for OCI. Archelon deletes the identity and its Secret when " +
			"condition " + identityv1.InUseCondition + " is False, or when annotation " + infrav1.AllowDeletionAnnotation +
			" of the identity is true",
	}
}
