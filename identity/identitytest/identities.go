package identitytest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Ref returns the identityRef of a cluster to an identity of its own namespace.
func Ref(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "OCIClusterIdentity", Name: name,
	}
}

// Identity returns an identity with the name id: its Secret "key" is beside it, and clusters of namespace a may use it.
func Identity(
	namespace string, change ...func(*identityv1.OCIClusterIdentity),
) *identityv1.OCIClusterIdentity {
	identity := &identityv1.OCIClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "id"},
		Spec: identityv1.OCIClusterIdentitySpec{
			Type:              identityv1.UserPrincipal,
			PrincipalSecret:   corev1.SecretReference{Namespace: namespace, Name: "key"},
			AllowedNamespaces: &identityv1.AllowedNamespaces{NamespaceList: []string{"a"}},
		},
	}
	for _, do := range change {
		do(identity)
	}
	return identity
}

// Quoted returns the name of a field of a Secret that a text quotes, empty if it quotes none. What is shorter than 6
// bytes can be there by chance, and so can the words of known, which a fuzzer puts into Secrets.
func Quoted(data map[string][]byte, text, known string) string {
	for name, value := range data {
		for line := range strings.Lines(string(value)) {
			line = strings.TrimSpace(line)
			if len(line) >= 6 && strings.Contains(text, line) && !strings.Contains(known, line) {
				return name
			}
		}
	}
	return ""
}
