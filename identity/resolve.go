package identity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Question is all that it depends on whether a cluster may use its identity.
type Question struct {
	// Ref is the identityRef of the cluster; nil has it use the principal of the process.
	Ref *corev1.ObjectReference
	// Namespace is that of the cluster. Its labels are of interest only if the identity has a selector.
	Namespace Namespace
	// Identity is what Ref leads to, nil if there is none.
	Identity *identityv1.OCIClusterIdentity
	// OutOfScope is whether Ref leads to a namespace where this instance cannot look.
	OutOfScope bool
	// Policy is what an administrator allows.
	Policy Policy
}

// Verdict is the answer.
type Verdict struct {
	// Allowed is whether the cluster may use the principal.
	Allowed bool
	// Principal is the type of the principal, empty for that of the process.
	Principal identityv1.PrincipalType
	// Reason is one word for why not; empty if allowed.
	Reason string
	// Message says to people why not; empty if allowed. It has no secret and names no other namespaces.
	Message string
	// Detail says what is wrong with the identity itself, for people who may read the identity. It has no secret.
	Detail string
}

// refused returns the error of a verdict that does not allow the principal.
func (v Verdict) refused() *RefusedError {
	return &RefusedError{Reason: v.Reason, Message: v.Message, Detail: v.Detail}
}

// Resolve says whether a cluster may use its identity. It is pure, and knows nothing of whether the principal works.
func Resolve(q Question) Verdict {
	if q.Ref == nil {
		return Verdict{Allowed: true}
	}
	if wrong := checkRef(q.Ref); wrong != nil {
		return refused(wrong)
	}
	key := KeyOf(q.Ref, q.Namespace.Name)
	if q.OutOfScope {
		return refused(problem(identityv1.IdentityOutOfScopeReason,
			"OCIClusterIdentity %s is in a namespace that this controller neither works in nor trusts. "+
				"Use an identity of another namespace, or ask your administrator to trust the namespace", bounded(key.String())))
	}
	if q.Identity == nil {
		return refused(
			problem(identityv1.IdentityNotFoundReason, "OCIClusterIdentity %s does not exist. Create it, or correct spec.identityRef", bounded(key.String())),
		)
	}
	if wrong := q.Policy.Check(q.Identity); wrong != nil {
		return Verdict{Reason: wrong.Reason, Message: unusable(key.String(), wrong.Reason), Detail: wrong.Message}
	}
	got := admits(q.Identity.Spec.AllowedNamespaces, q.Namespace)
	if got.allowed && q.Policy.RefuseOpen && q.Identity.Spec.AllowedNamespaces.Open() {
		got = refusal("spec.allowedNamespaces of the identity is empty, " +
			"which allows no namespace in this installation. Ask the owner of the identity to set a list or a selector")
	}
	if !got.allowed {
		return refused(problem(got.reason, "OCIClusterIdentity %s: %s", key, got.message))
	}
	return Verdict{Allowed: true, Principal: q.Identity.Spec.Type}
}

// KeyOf returns the identity that a reference of a cluster in a namespace leads to.
func KeyOf(ref *corev1.ObjectReference, namespace string) types.NamespacedName {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = namespace
	}
	return key
}

// checkRef checks what CAPOCI does not: it goes by name and namespace, whatever the kind.
func checkRef(ref *corev1.ObjectReference) *Problem {
	// A text that is no group and version has no group that fits.
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	switch {
	case ref.Kind != identityv1.OCIClusterIdentityKind:
		return problem(
			identityv1.IdentityRefInvalidReason, "spec.identityRef.kind is not supported. Set it to %s", identityv1.OCIClusterIdentityKind,
		)
	case err != nil || version.Group != identityv1.GroupName:
		return problem(
			identityv1.IdentityRefInvalidReason, "spec.identityRef.apiVersion is not supported. Set it to %s", identityv1.GroupVersion,
		)
	case ref.Name == "":
		return problem(identityv1.IdentityRefInvalidReason, "spec.identityRef.name is not set. Set it to the name of an OCIClusterIdentity")
	default:
		return nil
	}
}

// unusable says that something is wrong with an identity. What it is, is for people who may read the identity.
func unusable(identity, reason string) string {
	return fmt.Sprintf("OCIClusterIdentity %s cannot be used (%s). Ask the owner of the identity to correct it", identity, reason)
}

func refused(why *Problem) Verdict { return Verdict{Reason: why.Reason, Message: why.Message} }
