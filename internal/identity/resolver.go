package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
)

// User is a cluster that may name an identity: an OCICluster or an OCIManagedCluster.
type User interface {
	client.Object
	// IdentityRef returns the reference to the identity, nil if there is none.
	IdentityRef() *corev1.ObjectReference
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
	// Live reads from the API server. A principal is handed out for what is there now.
	Live client.Reader
	// Scope is where the instance looks, and what an administrator allows.
	Scope Scope
	// Providers are where principals come from that no Secret holds.
	Providers Providers
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
func (r *Resolver) Resolve(ctx context.Context, cluster User) (Verdict, error) {
	q, err := r.question(ctx, r.Cached, cluster)
	if err != nil {
		return Verdict{}, err
	}
	return Resolve(q), nil
}

// Principal returns what signs requests for the cluster, or a verdict that says why it may not. It reads from the API
// server, for a principal is not handed out on what a cache still says. An error means that it is not known, or that
// the principal does not work.
func (r *Resolver) Principal(ctx context.Context, cluster User) (common.ConfigurationProvider, Verdict, error) {
	q, err := r.question(ctx, Readers{Objects: r.Live, Metadata: r.Live}, cluster)
	if err != nil {
		return nil, Verdict{}, err
	}
	verdict := Resolve(q)
	if !verdict.Allowed {
		return nil, verdict, nil
	}
	var provider common.ConfigurationProvider
	if verdict.Principal == infrav1.UserPrincipal {
		provider, err = r.readPrincipal(ctx, q.Identity)
	} else {
		provider, err = r.Providers.provide(verdict.Principal)
	}
	if err != nil {
		return nil, verdict, fmt.Errorf("building the OCI principal: %w", err)
	}
	return provider, verdict, nil
}

// readPrincipal reads the Secret of an identity that the policy allows to.
func (r *Resolver) readPrincipal(
	ctx context.Context, identity *infrav1.OCIClusterIdentity,
) (common.ConfigurationProvider, error) {
	key, ok := r.Scope.Policy.secretOf(identity)
	if !ok {
		return nil, errors.New("the policy does not allow to read the Secret")
	}
	read, err := r.readSecret(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case read.flaw != "":
		return nil, errors.New(read.flaw)
	default:
		return read.credential, nil
	}
}

// readout is what a Secret held when it was read.
type readout struct {
	version    Version
	credential *Credential
	flaw       string
}

// readSecret reads the principal Secret of an identity.
func (r *Resolver) readSecret(ctx context.Context, key types.NamespacedName) (readout, error) {
	secret, err := ReadSecret(ctx, r.Live, key)
	if err != nil {
		return readout{}, err
	}
	defer Forget(secret.Data)
	credential, flaw := ParseCredential(secret.Data)
	return readout{version: VersionOf(secret), credential: credential, flaw: flaw}, nil
}

// question reads what a decision on the cluster depends on, and no more.
func (r *Resolver) question(ctx context.Context, from Readers, cluster User) (Question, error) {
	q := Question{
		Ref: cluster.IdentityRef(), Namespace: Namespace{Name: cluster.GetNamespace()}, Policy: r.Scope.Policy,
	}
	if q.Ref == nil || checkRef(q.Ref) != nil {
		return q, nil
	}
	key := KeyOf(q.Ref, cluster.GetNamespace())
	if q.OutOfScope = !r.Scope.readable(key.Namespace); q.OutOfScope {
		return q, nil
	}
	var err error
	if q.Identity, err = readIdentity(ctx, from.Objects, key); err != nil || !selects(q.Identity) {
		return q, err
	}
	q.Namespace, err = readNamespace(ctx, from.Metadata, cluster.GetNamespace())
	return q, err
}

// readIdentity returns an identity, nil if there is none.
func readIdentity(
	ctx context.Context, reader client.Reader, key types.NamespacedName,
) (*infrav1.OCIClusterIdentity, error) {
	identity := &infrav1.OCIClusterIdentity{}
	switch err := reader.Get(ctx, key, identity); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none is an answer
	case err != nil:
		return nil, fmt.Errorf("reading OCIClusterIdentity %s: %w", key, err)
	}
	return identity, nil
}

// readNamespace returns the labels of a Namespace, by a get: a list with the selector of an identity could mean all
// Namespaces.
func readNamespace(ctx context.Context, reader client.Reader, name string) (Namespace, error) {
	object := metadataOf("Namespace")
	switch err := reader.Get(ctx, types.NamespacedName{Name: name}, object); {
	case apierrors.IsNotFound(err):
		return Namespace{Name: name}, nil
	case err != nil:
		return Namespace{Name: name}, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{} // It exists.
	}
	return Namespace{Name: name, Labels: labels}, nil
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
