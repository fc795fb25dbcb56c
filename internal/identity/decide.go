package identity

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Decision is what a run is to do.
type Decision struct {
	// Actions come first; after them the run looks again.
	Actions []Action
	// Conditions are those that the identity should have, of the types that are ours.
	Conditions []identityv1.Condition
	// Verdicts are on the clusters that name the identity. Nil if they are not known.
	Verdicts map[userID]oci.Verdict
	// Wants are what OCI is to be asked about clusters, and Checks what it said, by cluster. Nil if it is not asked, or if
	// it is not known which clusters may use the identity.
	Wants  map[target]asker
	Checks map[userID]finding
	// After is when OCI is to be asked again; zero for never.
	After time.Duration
	// Trouble is to be retried.
	Trouble error
}

// Rules are what an administrator has set.
type Rules struct {
	Policy oci.Policy
	// Verify is whether OCI is asked.
	Verify bool
}

// Decide says what to do. It is pure.
func Decide(o Observation, rules Rules, now time.Time) Decision {
	d := Decision{Trouble: errors.Join(o.Trouble, o.Secret.Trouble)}
	if o.Trouble == nil {
		d.Verdicts = verdictsOn(o, rules.Policy)
	}
	if o.Trouble == nil && o.Checks != nil {
		d.Wants, d.Checks = wants(o, d.Verdicts), findings(o)
	}
	if o.Identity == nil || o.Foreign {
		return d // Another instance says what there is to say of it.
	}
	if d.Trouble == nil && rules.Verify && o.Secret.Exists && o.Secret.flaw == "" {
		if d.After = dueIn(o.Secret, now); d.After <= 0 {
			d.After = 0
			d.Actions = []Action{verify{secret: o.Secret.Name, seen: o.Secret.checked}}
		}
	}
	d.Conditions = []identityv1.Condition{ready(o, rules, d.Trouble), restricted(o.Identity, rules.Policy)}
	if o.Trouble == nil {
		d.Conditions = append(d.Conditions, inUse(o, d.Verdicts))
		if o.Checks != nil {
			if verified := verifiedCondition(o, d.Verdicts); verified != nil {
				d.Conditions = append(d.Conditions, *verified)
			}
		}
	}
	for i := range d.Conditions {
		Stamp(&d.Conditions[i], o.Identity.Condition(d.Conditions[i].Type), now)
	}
	return d
}

// verdictsOn resolves every cluster that names the identity.
func verdictsOn(o Observation, policy oci.Policy) map[userID]oci.Verdict {
	verdicts := make(map[userID]oci.Verdict, len(o.Clusters))
	for _, cluster := range o.Clusters {
		verdicts[cluster.id] = oci.Resolve(oci.Question{
			Ref: cluster.Ref, Namespace: cluster.Namespace, Policy: policy,
			Identity: o.Identity, OutOfScope: o.OutOfScope,
		})
	}
	return verdicts
}

// dueIn returns when OCI is to be asked about the Secret, not more than zero for now.
func dueIn(secret Secret, now time.Time) time.Duration {
	lasts := map[string]time.Duration{
		accepted: acceptedFor, rejected: rejectedFor, unreachable: unreachableFor,
	}[secret.answer.result]
	return secret.asked.Add(lasts).Sub(now)
}

// ready returns the condition Ready.
func ready(o Observation, rules Rules, trouble error) identityv1.Condition {
	if trouble != nil {
		is := unchanged(o.Identity.Condition(identityv1.ReadyCondition), outcome.Fail("", trouble).Message)
		if is.Status == corev1.ConditionTrue && withdrawn(o.Identity) {
			is.Status = corev1.ConditionFalse
		}
		return is
	}
	problems := problemsOf(o, rules)
	if len(problems) == 0 {
		if rules.Verify && o.Secret.Exists && o.Secret.answer.result != accepted {
			return unchanged(
				o.Identity.Condition(identityv1.ReadyCondition), cmp.Or(o.Secret.answer.detail, "Archelon has not asked OCI yet"),
			)
		}
		return identityv1.Condition{
			Type: identityv1.ReadyCondition, Status: corev1.ConditionTrue, Reason: identityv1.ReadyReason,
		}
	}
	texts := make([]string, len(problems))
	for i := range problems {
		texts[i] = problems[i].Message
	}
	return identityv1.Condition{
		Type: identityv1.ReadyCondition, Status: corev1.ConditionFalse, Severity: identityv1.SeverityError,
		Reason: problems[0].Reason, Message: strings.Join(texts, ". "),
	}
}

// problemsOf lists what is wrong with an identity, the gravest first.
func problemsOf(o Observation, rules Rules) []oci.Problem {
	var problems []oci.Problem
	if wrong := rules.Policy.Check(o.Identity); wrong != nil {
		problems = append(problems, *wrong)
	} else if o.Identity.Spec.Type == identityv1.UserPrincipal {
		switch {
		case !o.Secret.Exists:
			problems = append(problems, oci.Problem{
				Reason: identityv1.SecretNotFoundReason, Message: fmt.Sprintf("Secret %s does not exist. Create it, or correct spec.principalSecret", o.Secret.Name),
			})
		case withdrawn(o.Identity):
			problems = append(problems, oci.Problem{Reason: infrav1.CredentialWithdrawnReason, Message: withdrawnText})
		case o.Secret.flaw != "":
			problems = append(problems, oci.Problem{Reason: identityv1.CredentialInvalidReason, Message: o.Secret.flaw})
		case rules.Verify && o.Secret.answer.result == rejected:
			problems = append(problems, oci.Problem{Reason: identityv1.CredentialRejectedReason, Message: o.Secret.answer.detail})
		}
	}
	if wrong := oci.CheckSelector(o.Identity); wrong != nil {
		problems = append(problems, *wrong)
	}
	return problems
}

// withdrawnText is said of an identity whose Secret still has a key that the cloud credential has not any more.
const withdrawnText = "The cloud credential of this identity was deleted, or has no working key any more. Clusters that use the identity still use the former key. " +
	"Correct the cloud credential, or give these clusters another identity"

// withdrawn reports whether the Secret of an identity has a key that was taken out of the cloud credential which it was
// translated from.
func withdrawn(identity *identityv1.OCIClusterIdentity) bool {
	is := identity.Condition(infrav1.TranslatedCondition)
	return is != nil && is.Status == corev1.ConditionFalse &&
		(is.Reason == infrav1.CredentialGoneReason || is.Reason == infrav1.CredentialWithdrawnReason)
}

// unchanged says that something could not be found out, and leaves the status what it was: an outage takes nothing away
// and gives nothing.
func unchanged(before *identityv1.Condition, why string) identityv1.Condition {
	after := identityv1.Condition{
		Type: identityv1.ReadyCondition, Status: corev1.ConditionUnknown, Reason: identityv1.EvaluationFailedReason,
		Message: controller.Head(why, maxText) + ". Archelon tries again, and keeps the last result until then",
	}
	if before != nil {
		after.Status, after.Severity = before.Status, before.Severity
	}
	return after
}

// What is told of identities that are open, or that CAPOCI takes for open.
const (
	openText = "All namespaces may use this identity, because spec.allowedNamespaces is empty. A misspelled field name has the same effect. " +
		"To restrict the identity, set spec.allowedNamespaces.list or spec.allowedNamespaces.selector"
	openRefusedText = "No namespace may use this identity in Archelon, because spec.allowedNamespaces is empty, and the Helm value identity.refuseOpen is true. " +
		"CAPOCI allows all namespaces. Set spec.allowedNamespaces.list or spec.allowedNamespaces.selector"
	nullListText = "No namespace may use this identity in Archelon, because spec.allowedNamespaces.list is null. " +
		"CAPOCI allows all namespaces. Set spec.allowedNamespaces.list or spec.allowedNamespaces.selector"
)

// restricted returns the condition NamespacesRestricted.
func restricted(identity *identityv1.OCIClusterIdentity, policy oci.Policy) identityv1.Condition {
	warning := func(reason, message string) identityv1.Condition {
		return identityv1.Condition{
			Type: identityv1.NamespacesRestrictedCondition, Status: corev1.ConditionFalse, Severity: identityv1.SeverityWarning,
			Reason: reason, Message: message,
		}
	}
	switch allowed := identity.Spec.AllowedNamespaces; {
	case allowed.Open() && policy.RefuseOpen:
		return warning(identityv1.OpenToAllNamespacesReason, openRefusedText)
	case allowed.Open():
		return warning(identityv1.OpenToAllNamespacesReason, openText)
	case allowed != nil && allowed.NullList && allowed.Selector == nil:
		return warning(identityv1.NullListReason, nullListText)
	default:
		return identityv1.Condition{
			Type: identityv1.NamespacesRestrictedCondition, Status: corev1.ConditionTrue, Reason: identityv1.RestrictedReason,
		}
	}
}

// maxText is how much of a text that others wrote goes into a message.
const maxText = 512

// maxListed is how many clusters a message names.
const maxListed = 10

// inUse returns the condition InUse. Clusters count that CAPOCI lets use the identity, be they refused here or not:
// they depend on it. It is False only where the instance sees all of them: what it does not see, it does not deny.
func inUse(o Observation, verdicts map[userID]oci.Verdict) identityv1.Condition {
	var users, kept []string
	for _, cluster := range o.Clusters {
		name := cluster.id.kind + " " + cluster.id.String()
		if verdict := verdicts[cluster.id]; !verdict.Allowed {
			name += " (" + verdict.Reason + ")"
		}
		if oci.AdmittedByCAPOCI(o.Identity.Spec.AllowedNamespaces, cluster.Namespace) {
			users = append(users, name)
		} else {
			kept = append(kept, name)
		}
	}
	var texts []string
	condition := identityv1.Condition{
		Type: identityv1.InUseCondition, Status: corev1.ConditionTrue, Reason: identityv1.UsedReason,
	}
	switch {
	case len(users) > 0:
		texts = append(texts, "Used by "+list(users))
		if !o.Unseen.None() {
			texts = append(texts, o.Unseen.more())
		}
	case !o.Unseen.None():
		condition.Status, condition.Reason = corev1.ConditionUnknown, identityv1.MayBeUsedReason
		texts = append(texts, o.Unseen.maybe())
	default:
		condition.Status, condition.Severity = corev1.ConditionFalse, identityv1.SeverityInfo
		condition.Reason = identityv1.NotUsedReason
	}
	if len(kept) > 0 {
		texts = append(texts, "Refused: "+list(kept))
	}
	condition.Message = strings.Join(texts, ". ")
	return condition
}

// list joins names, and counts those that are too many to name.
func list(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}
