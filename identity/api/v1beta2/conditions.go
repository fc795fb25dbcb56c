package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions that Archelon sets on an OCIClusterIdentity.
const (
	// ReadyCondition is True when a cluster of an allowed namespace can use the identity.
	ReadyCondition = "Ready"
	// NamespacesRestrictedCondition is False, with severity Warning, when clusters of all namespaces may use the
	// identity.
	NamespacesRestrictedCondition = "NamespacesRestricted"
	// InUseCondition is True when clusters name the identity and may use it; its message lists them. It is Unknown when
	// the instance sees none, and does not see all namespaces whose clusters may use the identity.
	InUseCondition = "InUse"
)

// Reasons of Ready.
const (
	// ReadyReason: the principal is complete, and OCI has accepted it if it was asked.
	ReadyReason = "Ready"
	// PrincipalTypeUnknownReason: the type is none that CAPOCI knows.
	PrincipalTypeUnknownReason = "PrincipalTypeUnknown"
	// PrincipalTypeForbiddenReason: identities of this namespace must not stand for the principal of an instance or a
	// workload.
	PrincipalTypeForbiddenReason = "PrincipalTypeForbidden"
	// SecretReferenceInvalidReason: the reference to the Secret is missing or incomplete, or there are two that differ.
	SecretReferenceInvalidReason = "SecretReferenceInvalid"
	// SecretNamespaceForbiddenReason: the Secret is in a namespace where principal Secrets must not live, or where
	// identities of this namespace must not take them from.
	SecretNamespaceForbiddenReason = "SecretNamespaceForbidden"
	// SecretNotFoundReason: there is no such Secret.
	SecretNotFoundReason = "SecretNotFound"
	// CredentialInvalidReason: the Secret has not what OCI needs, or in another form. The message says what, and quotes
	// nothing.
	CredentialInvalidReason = "CredentialInvalid"
	// CredentialRejectedReason: OCI was asked and does not accept the API key.
	CredentialRejectedReason = "CredentialRejected"
	// SelectorInvalidReason: the selector of namespaces cannot be read, so it selects none.
	SelectorInvalidReason = "SelectorInvalid"
	// EvaluationFailedReason: something could not be read. What was known before still holds.
	EvaluationFailedReason = "EvaluationFailed"
)

// Reasons of NamespacesRestricted and InUse.
const (
	// RestrictedReason: the identity is for the clusters of some namespaces.
	RestrictedReason = "Restricted"
	// OpenToAllNamespacesReason: allowedNamespaces is an empty object, so clusters of all namespaces may use the
	// identity.
	OpenToAllNamespacesReason = "OpenToAllNamespaces"
	// NullListReason: the list of namespaces is null. Archelon takes that for no namespace, CAPOCI for all of them.
	NullListReason = "NullList"
	// UsedReason: the clusters that the message names use the identity.
	UsedReason = "Used"
	// MayBeUsedReason: the instance sees no cluster that uses the identity, and does not work in all namespaces that may
	// have one. The identity is protected as if it were in use.
	MayBeUsedReason = "MayBeUsed"
	// NotUsedReason: no cluster uses the identity.
	NotUsedReason = "NotUsed"
)

// Reasons why a cluster may not use its identity, besides those of Ready.
const (
	// IdentityRefInvalidReason: identityRef has another kind or group than OCIClusterIdentity's, or no name.
	IdentityRefInvalidReason = "IdentityRefInvalid"
	// IdentityNotEvaluatedReason: there is nothing to decide on yet. The message says what is missing.
	IdentityNotEvaluatedReason = "IdentityNotEvaluated"
	// IdentityNotFoundReason: there is no such identity.
	IdentityNotFoundReason = "IdentityNotFound"
	// IdentityOutOfScopeReason: the identity is where this instance does not work, and is not in a trusted namespace.
	IdentityOutOfScopeReason = "IdentityOutOfScope"
	// PrincipalUnavailableReason: the controller has no OCI principal of the type, or none of its own for a cluster
	// without identityRef.
	PrincipalUnavailableReason = "PrincipalUnavailable"
	// NamespaceNotAllowedReason: the identity is not for clusters of this namespace.
	NamespaceNotAllowedReason = "NamespaceNotAllowed"
)

// Condition is a condition as CAPI's v1beta1 contract has it, which the status of CAPOCI's kinds follows. CAPI's Go
// type is deprecated.
type Condition struct {
	// type of the condition.
	Type string `json:"type"`

	// status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// severity is Error, Warning or Info if status is False, and empty otherwise.
	// +optional
	Severity ConditionSeverity `json:"severity,omitempty"`

	// lastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// reason is one word for why the status is what it is.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says it to people.
	// +optional
	Message string `json:"message,omitempty"`
}

// ConditionSeverity says how bad it is that a condition is False.
type ConditionSeverity string

// Severities of a condition.
const (
	SeverityError   ConditionSeverity = "Error"
	SeverityWarning ConditionSeverity = "Warning"
	SeverityInfo    ConditionSeverity = "Info"
)

// Condition returns the condition of the type, nil if there is none.
func (i *OCIClusterIdentity) Condition(conditionType string) *Condition {
	for n := range i.Status.Conditions {
		if i.Status.Conditions[n].Type == conditionType {
			return &i.Status.Conditions[n]
		}
	}
	return nil
}
