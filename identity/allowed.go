package identity

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Namespace is what is known of the Namespace of a cluster.
type Namespace struct {
	Name string
	// Labels are nil if the Namespace does not exist.
	Labels map[string]string
}

// admission is whether allowedNamespaces admits a namespace, and otherwise why not.
type admission struct {
	allowed         bool
	reason, message string
}

// admits applies the rules of the proposal: nil admits nobody, an empty object everybody, else a namespace has to be in
// the list or to be selected. A list that is null and an empty selector admit nobody. Labels are compared here, with
// those of the Namespace that was read: the same selector in a request to the API server could mean all Namespaces.
func admits(allowed *identityv1.AllowedNamespaces, namespace Namespace) admission {
	switch {
	case allowed == nil:
		return refusal("spec.allowedNamespaces of the identity is not set, so no namespace may use it. Ask the owner of the identity to add this namespace")
	case allowed.Open():
		return admission{allowed: true}
	case slices.Contains(allowed.NamespaceList, namespace.Name):
		return admission{allowed: true}
	case allowed.Selector == nil:
		return refusal(fmt.Sprintf(
			"Namespace %s is not in spec.allowedNamespaces.list of the identity%s. Ask the owner of the identity to add it", namespace.Name,
			nullListNote(allowed),
		))
	}
	selector, err := SelectorOf(allowed)
	switch {
	case err != nil:
		return admission{reason: identityv1.SelectorInvalidReason, message: selectorProblem(err)}
	case selector.Empty():
		return refusal("spec.allowedNamespaces.selector of the identity is empty, so it selects no namespace. Ask the owner of the identity to set it")
	case namespace.Labels == nil:
		return refusal(fmt.Sprintf("Namespace %s does not exist", namespace.Name))
	case !selector.Matches(labels.Set(namespace.Labels)):
		return refusal(fmt.Sprintf(
			"Namespace %s is neither in spec.allowedNamespaces.list of the identity nor selected by its selector. Ask the owner of the identity to allow it",
			namespace.Name,
		))
	default:
		return admission{allowed: true}
	}
}

// AdmittedByCAPOCI reports whether CAPOCI lets a cluster of the namespace use the identity. It differs from Resolve in
// one case: CAPOCI takes a null list for all namespaces.
func AdmittedByCAPOCI(allowed *identityv1.AllowedNamespaces, namespace Namespace) bool {
	return admits(allowed, namespace).allowed || allowed != nil && allowed.NullList && allowed.Selector == nil
}

func refusal(message string) admission {
	return admission{reason: identityv1.NamespaceNotAllowedReason, message: message}
}

func nullListNote(allowed *identityv1.AllowedNamespaces) string {
	if !allowed.NullList {
		return ""
	}
	return ", which is null and so allows no namespace"
}

// SelectorOf returns the selector of namespaces, which selects nothing if there is none.
func SelectorOf(allowed *identityv1.AllowedNamespaces) (labels.Selector, error) {
	if allowed == nil {
		return labels.Nothing(), nil
	}
	return metav1.LabelSelectorAsSelector(allowed.Selector)
}

func selectorProblem(err error) string {
	return "spec.allowedNamespaces.selector of the identity cannot be read: " + bounded(err.Error())
}

// CheckSelector says what is wrong with the selector of an identity; nil if it can be read.
func CheckSelector(identity *identityv1.OCIClusterIdentity) *Problem {
	if _, err := SelectorOf(identity.Spec.AllowedNamespaces); err != nil {
		return &Problem{Reason: identityv1.SelectorInvalidReason, Message: selectorProblem(err)}
	}
	return nil
}

// Selects reports whether it depends on labels of Namespaces who may use an identity. Nil is no identity.
func Selects(identity *identityv1.OCIClusterIdentity) bool {
	return identity != nil && identity.Spec.AllowedNamespaces != nil && identity.Spec.AllowedNamespaces.Selector != nil
}

// maxText is how much of a text that others wrote goes into a message.
const maxText = 512

// bounded cuts a text that others wrote.
func bounded(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText]) + "..."
	}
	return text
}
