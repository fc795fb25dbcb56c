package identity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	"github.com/archelon-io/archelon/internal/shard"
)

// Scope is where an instance looks for identities, and what an administrator allows them.
type Scope struct {
	// Shard is where the instance works. It writes the status of identities there, and resolves clusters there.
	Shard shard.Scope
	// Policy is what an administrator allows. Identities of trusted namespaces are read wherever they are, for they are
	// shared.
	Policy Policy
}

// readable reports whether identities of the namespace can be read.
func (s Scope) readable(namespace string) bool {
	return s.Shard.Owns(namespace) || slices.Contains(s.Policy.TrustedNamespaces, namespace)
}

// SharedCache returns how narrowly the manager's cache is to hold what this package reads from it. Where it is not
// mentioned, the defaults of the scope are right.
func (s Scope) SharedCache() map[client.Object]cache.ByObject {
	namespaces := s.Shard.Namespaces()
	for _, name := range s.Policy.TrustedNamespaces {
		if !s.Shard.Owns(name) {
			namespaces[name] = cache.Config{} // What is named is not excluded any more.
		}
	}
	return map[client.Object]cache.ByObject{&infrav1.OCIClusterIdentity{}: {Namespaces: namespaces}}
}

// OwnCache returns how narrowly a cache of the controller's own is to hold metadata: that of the Namespaces of the
// scope, and of Secrets in the namespaces that the policy names.
func (s Scope) OwnCache() cache.Options {
	secrets := cache.ByObject{Transform: keepIdentity, Namespaces: map[string]cache.Config{}}
	for _, name := range s.Policy.SecretNamespaces {
		secrets.Namespaces[name] = cache.Config{}
	}
	if len(secrets.Namespaces) == 0 {
		// Nothing asks for Secrets then. Should something do, it is shown none: no namespaces would stand for all of
		// them.
		secrets.Namespaces, secrets.Field = nil, fields.OneTermEqualSelector(metav1.ObjectNameField, "-")
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Namespace{}: {Label: s.Shard.NamespaceObjects(), Transform: keepLabels},
		&corev1.Secret{}:    secrets,
	}}
}

// keepIdentity drops all metadata but what tells one state of an object from another. Annotations of a Secret can hold
// the key itself: kubectl apply keeps what it applied in one.
func keepIdentity(object any) (any, error) {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.Annotations, metadata.Labels, metadata.ManagedFields = nil, nil, nil
		metadata.OwnerReferences, metadata.Finalizers = nil, nil
	}
	return object, nil
}

// keepLabels drops what is not read of a Namespace.
func keepLabels(object any) (any, error) {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.Annotations, metadata.ManagedFields, metadata.OwnerReferences, metadata.Finalizers = nil, nil, nil, nil
	}
	return object, nil
}
