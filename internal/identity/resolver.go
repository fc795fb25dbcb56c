package identity

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
)

// User is a cluster that may name an identity: an OCICluster or an OCIManagedCluster.
type User interface {
	client.Object
	// IdentityRef returns the reference to the identity, nil if there is none.
	IdentityRef() *corev1.ObjectReference
	// ClusterSpec returns what is read of the spec.
	ClusterSpec() *infrav1.ClusterSpec
}

// Readers are what a decision is read from.
type Readers struct {
	// Objects has identities, OCIClusters and OCIManagedClusters.
	Objects client.Reader
	// Metadata has the metadata of Namespaces, and of Secrets in the namespaces that the policy names.
	Metadata client.Reader
}

// Resolver answers for a cluster which principal it may use.
type Resolver struct {
	// Cached are caches. Decisions are read from them and cost no request.
	Cached Readers
	// Live reads Secrets from the API server.
	Live client.Reader
	// Scope is where the instance looks, and what an administrator allows.
	Scope Scope
	// Checker knows what OCI says of clusters; nil if OCI is not asked.
	Checker *Checker
}

// complete rejects missing dependencies.
func (r *Resolver) complete() error {
	if r == nil || r.Cached.Objects == nil || r.Cached.Metadata == nil || r.Live == nil {
		return errors.New("the resolver of identities needs readers of objects, of metadata and of the API server")
	}
	return r.Scope.Policy.Validate()
}

// Resolve says whether the cluster may use its identity. It reads caches. An error means that it is not known: what was
// known before still holds.
func (r *Resolver) Resolve(ctx context.Context, cluster User) (oci.Verdict, error) {
	return r.rules().Verdict(ctx, cluster.GetNamespace(), cluster.IdentityRef())
}

// rules returns the rules of identities, with what this instance may read. The principals of CAPOCI's own process are
// not here.
func (r *Resolver) rules() *oci.Resolver {
	return oci.NewResolver(r.readers(), oci.Options{Policy: r.Scope.Policy, Readable: r.Scope.readable})
}

// readers are what the rules of identities are read from: caches for everything but Secrets.
func (r *Resolver) readers() oci.Readers {
	return oci.Readers{Identities: r.Cached.Objects, Namespaces: r.Cached.Metadata, Secrets: r.Live}
}

// readout is what a Secret held when it was read.
type readout struct {
	version    Version
	credential *oci.Credential
	flaw       string
}

// readSecret reads the principal Secret of an identity.
func (r *Resolver) readSecret(ctx context.Context, key types.NamespacedName) (readout, error) {
	secret, err := r.readers().Secret(ctx, key)
	if err != nil {
		return readout{}, err
	}
	defer oci.Forget(secret.Data)
	credential, flaw := oci.ParseCredential(secret.Data)
	return readout{version: VersionOf(secret), credential: credential, flaw: flaw}, nil
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
