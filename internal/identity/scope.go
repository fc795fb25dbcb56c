package identity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// Scope is where an instance looks for identities, and what an administrator allows them.
type Scope struct {
	// Shard is where the instance works. It writes the status of identities there, and resolves clusters there.
	Shard shard.Scope
	// Policy is what an administrator allows. Identities of trusted namespaces are read wherever they are, for they are
	// shared.
	Policy oci.Policy
}

// readable reports whether identities of the namespace can be read.
func (s Scope) readable(namespace string) bool {
	return s.Shard.Owns(namespace) || slices.Contains(s.Policy.TrustedNamespaces, namespace)
}

// Watches returns what the controller receives, and how narrowly. In its own cache are the metadata of the Namespaces
// of the scope, and of Secrets in the namespaces that the policy names: without any, of no Secret at all.
func (s Scope) Watches() []controller.Watch {
	identities := cache.ByObject{Transform: reduce}
	if shared := s.trustedElsewhere(); len(shared) > 0 {
		identities.Namespaces = s.Shard.Namespaces()
		for _, name := range shared {
			identities.Namespaces[name] = cache.Config{} // What is named is not excluded any more.
		}
	}
	watches := []controller.Watch{
		{Object: &identityv1.OCIClusterIdentity{}, By: identities},
		{Object: &infrav1.OCICluster{}, By: cache.ByObject{Transform: reduce}},
		{Object: &infrav1.OCIManagedCluster{}, By: cache.ByObject{Transform: reduce}},
		{Own: true, Object: controller.MetadataOf(corev1.SchemeGroupVersion, "Namespace"), By: cache.ByObject{
			Label: s.Shard.NamespaceObjects(), Transform: controller.KeepAllLabels,
		}},
	}
	if len(s.Policy.SecretNamespaces) == 0 {
		return watches // No namespaces would stand for all of them.
	}
	secrets := cache.ByObject{Transform: controller.KeepIdentity, Namespaces: map[string]cache.Config{}}
	for _, name := range s.Policy.SecretNamespaces {
		secrets.Namespaces[name] = cache.Config{}
	}
	secret := controller.MetadataOf(corev1.SchemeGroupVersion, "Secret")
	return append(watches, controller.Watch{Own: true, Object: secret, By: secrets})
}

// trustedElsewhere returns the trusted namespaces that the instance does not work in.
func (s Scope) trustedElsewhere() []string {
	return slices.DeleteFunc(slices.Clone(s.Policy.TrustedNamespaces), s.Shard.Owns)
}

// longestText is how much is kept of a text in a reference or an annotation. None that is longer can be right.
const longestText = 1 << 10

// reduce drops what is not read of an identity, or of a cluster that uses one. Annotations can be large, and can hold
// what an object is made of: one of them is read, that with which an identity may be removed although clusters use it.
func reduce(object any) (any, error) {
	if found, ok := object.(client.Object); ok {
		value, allowed := found.GetAnnotations()[infrav1.AllowDeletionAnnotation]
		found.SetAnnotations(nil)
		if allowed {
			found.SetAnnotations(map[string]string{infrav1.AllowDeletionAnnotation: controller.Head(value, longestText)})
		}
		found.SetLabels(controller.OnlyLabels(found.GetLabels(), infrav1.CredentialUIDLabel))
		found.SetManagedFields(nil)
		found.SetOwnerReferences(nil)
		found.SetFinalizers(nil)
	}
	if user, ok := object.(User); ok {
		reduceSpec(user.ClusterSpec())
		if ref := user.IdentityRef(); ref != nil {
			*ref = corev1.ObjectReference{
				APIVersion: controller.Head(ref.APIVersion, longestText), Kind: controller.Head(ref.Kind, longestText),
				Namespace: controller.Head(ref.Namespace, longestText), Name: controller.Head(ref.Name, longestText),
			}
		}
	}
	return object, nil
}

// reduceSpec bounds what tenants wrote.
func reduceSpec(spec *infrav1.ClusterSpec) {
	spec.CompartmentID, spec.Region = controller.Head(spec.CompartmentID, longestText), controller.Head(spec.Region, longestText)
	if overrides := spec.Overrides(); overrides != nil {
		overrides.IdentityClientURL = controller.Head(overrides.IdentityClientURL, longestText)
		if ref := overrides.CertOverride; ref != nil {
			ref.Namespace, ref.Name = controller.Head(ref.Namespace, longestText), controller.Head(ref.Name, longestText)
		}
	}
}
