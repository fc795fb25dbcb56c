package identity

import (
	"context"
	"fmt"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Options say what a Resolver allows, and where principals come from that no Secret has.
type Options struct {
	// Policy is what an administrator allows. The zero value allows no Secret.
	Policy Policy
	// Providers are where principals come from that no Secret has. Without any, clusters need an identity of type
	// UserPrincipal.
	Providers Providers
	// Readable reports whether identities of a namespace can be read, where a cache or a permission does not have all
	// namespaces. Nil if they can be read everywhere.
	Readable func(namespace string) bool
}

// Resolver answers for a cluster which principal it may use. It keeps nothing, so each answer is about what its readers
// say at that moment. It may be used from several goroutines.
type Resolver struct {
	readers Readers
	options Options
}

// NewResolver returns a Resolver.
func NewResolver(readers Readers, options Options) *Resolver {
	return &Resolver{readers: readers, options: options}
}

// ConfigurationProvider returns the principal that signs requests to OCI for a cluster in a namespace: what its
// identityRef leads to, and without one the principal of this process. A RefusedError says why the cluster has none;
// after any other error it is not known.
//
// Its readers should be live, so that an identity which was closed to the namespace is not handed out on what a cache
// still says.
func (r *Resolver) ConfigurationProvider(
	ctx context.Context, namespace string, ref *corev1.ObjectReference,
) (common.ConfigurationProvider, error) {
	q, err := r.question(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	verdict := Resolve(q)
	switch {
	case !verdict.Allowed:
		return nil, verdict.refused()
	case verdict.Principal == identityv1.UserPrincipal:
		return r.credential(ctx, q.Identity)
	default:
		return r.options.Providers.provide(verdict.Principal)
	}
}

// Verdict says whether a cluster in a namespace may use what its identityRef leads to. It reads no Secret, so it does
// not say whether the principal works. An error means that it is not known: what was known before still holds.
func (r *Resolver) Verdict(ctx context.Context, namespace string, ref *corev1.ObjectReference) (Verdict, error) {
	q, err := r.question(ctx, namespace, ref)
	if err != nil {
		return Verdict{}, err
	}
	return Resolve(q), nil
}

// credential reads the Secret of an identity that the policy allows to.
func (r *Resolver) credential(
	ctx context.Context, identity *identityv1.OCIClusterIdentity,
) (common.ConfigurationProvider, error) {
	key, _ := r.options.Policy.SecretOf(identity)
	name := identity.Namespace + "/" + identity.Name
	secret, err := r.readers.Secret(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &RefusedError{
			Reason: identityv1.SecretNotFoundReason, Message: unusable(name, identityv1.SecretNotFoundReason),
			Detail: fmt.Sprintf("Secret %s does not exist. Create it, or correct spec.principalSecret", key),
		}
	case err != nil:
		return nil, err
	}
	defer Forget(secret.Data)
	credential, flaw := ParseCredential(secret.Data)
	if flaw != "" {
		return nil, &RefusedError{
			Reason: identityv1.CredentialInvalidReason, Message: unusable(name, identityv1.CredentialInvalidReason), Detail: flaw,
		}
	}
	return credential, nil
}

// question reads what a decision on the cluster depends on, and no more.
func (r *Resolver) question(ctx context.Context, namespace string, ref *corev1.ObjectReference) (Question, error) {
	q := Question{Ref: ref, Namespace: Namespace{Name: namespace}, Policy: r.options.Policy}
	if ref == nil || checkRef(ref) != nil {
		return q, nil
	}
	key := KeyOf(ref, namespace)
	if q.OutOfScope = r.options.Readable != nil && !r.options.Readable(key.Namespace); q.OutOfScope {
		return q, nil
	}
	var err error
	if q.Identity, err = r.readers.Identity(ctx, key); err != nil || !Selects(q.Identity) {
		return q, err
	}
	q.Namespace, err = r.readers.Namespace(ctx, namespace)
	return q, err
}
