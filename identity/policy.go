package identity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Policy is what an administrator allows identities. The zero value is the safest: no Secrets, and no principals of
// instances or workloads.
type Policy struct {
	// SecretNamespaces are the namespaces where principal Secrets may live. An identity may name one of its own
	// namespace if that is among them.
	SecretNamespaces []string
	// TrustedNamespaces are the namespaces where administrators alone can write identities. Identities there may name a
	// Secret in any of SecretNamespaces, and may be of type InstancePrincipal or Workload.
	TrustedNamespaces []string
	// RefuseOpen refuses identities that are open to all namespaces: an empty allowedNamespaces then is for no
	// namespace.
	RefuseOpen bool
}

// Validate returns an error that names every entry that cannot be the name of a namespace.
func (p Policy) Validate() error {
	var wrong []string
	for _, name := range slices.Concat(p.SecretNamespaces, p.TrustedNamespaces) {
		if len(validation.IsDNS1123Label(name)) > 0 {
			wrong = append(wrong, fmt.Sprintf("%q", name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("cannot be names of namespaces: %s", strings.Join(wrong, ", "))
	}
	return nil
}

// Problem is what is wrong with an identity. Its message has a remedy and no secret.
type Problem struct {
	// Reason is one of the reasons of the condition Ready.
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

func problem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Check says what is wrong with the principal of an identity, as far as the identity and the policy tell. Without a
// problem, the Secret of a UserPrincipal may be read.
func (p Policy) Check(identity *identityv1.OCIClusterIdentity) *Problem {
	switch identity.Spec.Type {
	case identityv1.UserPrincipal:
		return p.checkSecret(identity)
	case identityv1.InstancePrincipal, identityv1.WorkloadPrincipal:
		if slices.Contains(p.TrustedNamespaces, identity.Namespace) {
			return nil
		}
		return problem(identityv1.PrincipalTypeForbiddenReason,
			"Identities of namespace %s must not have type %s, which is the principal of the management cluster itself. "+
				"Use type %s, or ask your administrator to trust the namespace",
			identity.Namespace, identity.Spec.Type, identityv1.UserPrincipal)
	default:
		return problem(identityv1.PrincipalTypeUnknownReason, "spec.type is not known. Set it to %s, %s or %s",
			identityv1.UserPrincipal, identityv1.InstancePrincipal, identityv1.WorkloadPrincipal)
	}
}

func (p Policy) checkSecret(identity *identityv1.OCIClusterIdentity) *Problem {
	ref, unambiguous := identity.Spec.Secret()
	switch {
	case !unambiguous:
		return problem(
			identityv1.SecretReferenceInvalidReason,
			"spec.principalSecret and spec.clientSecret name different Secrets. Keep principalSecret",
		)
	case ref == corev1.SecretReference{}:
		return problem(identityv1.SecretReferenceInvalidReason, "spec.principalSecret is not set. "+
			"Set it: the CRD of CAPOCI drops a field with the name clientSecret")
	case ref.Namespace == "" || ref.Name == "":
		return problem(identityv1.SecretReferenceInvalidReason,
			"spec.principalSecret needs both name and namespace. The namespace has no default")
	case !slices.Contains(p.SecretNamespaces, ref.Namespace):
		return problem(identityv1.SecretNamespaceForbiddenReason, "Principal Secrets must not be in namespace %s. Move the Secret to an allowed namespace (%s), or ask your administrator to allow this one",
			bounded(ref.Namespace), namesOr(p.SecretNamespaces, "none is"))
	case ref.Namespace != identity.Namespace && !slices.Contains(p.TrustedNamespaces, identity.Namespace):
		return problem(identityv1.SecretNamespaceForbiddenReason,
			"Identities of namespace %s must use a Secret of the same namespace, not of %s. "+
				"Move the Secret or the identity, or ask your administrator to trust the namespace",
			identity.Namespace, ref.Namespace)
	default:
		return nil
	}
}

// SecretOf returns the Secret that may be read for an identity, false if there is none.
func (p Policy) SecretOf(identity *identityv1.OCIClusterIdentity) (types.NamespacedName, bool) {
	if identity == nil || identity.Spec.Type != identityv1.UserPrincipal || p.Check(identity) != nil {
		return types.NamespacedName{}, false
	}
	ref, _ := identity.Spec.Secret()
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, true
}

func namesOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
