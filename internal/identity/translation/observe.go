package translation

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
)

// Observation is all that a run has read. The three objects have the same name; each is nil if there is none.
type Observation struct {
	// Credential is the cloud credential.
	Credential *metav1.PartialObjectMetadata
	// Secret is the principal Secret, or what has its name.
	Secret *metav1.PartialObjectMetadata
	// Identity is the identity, or what has its name.
	Identity *identityv1.OCIClusterIdentity
	// Unseen is whether clusters may use the identity that this instance does not receive.
	Unseen bool
	// Content is what the credential holds.
	Content Content
	// Named is whether an identity that is to stay names the Secret. It is not looked for unless the Secret could go.
	Named bool
}

// Content is what was found in a credential. It has nothing of a key.
type Content struct {
	// OCI is whether it is for OCI, and not being deleted.
	OCI bool
	// Flaw is empty if it can be translated.
	Flaw string
	// Withdrawn is whether it holds no working key, whatever its region is. The key that it held before is withdrawn.
	Withdrawn bool
	// Regionless is whether nobody names a region.
	Regionless bool
	// Same is whether the principal Secret holds what it is translated to.
	Same bool
}

// wanted returns the UID of the credential that there should be an identity for, none if it is empty.
func (o Observation) wanted() types.UID {
	if o.Credential == nil || !o.Content.OCI {
		return ""
	}
	return o.Credential.UID
}

// observe reads. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, name string) (Observation, error) {
	o := Observation{}
	var err error
	if o.Credential, err = r.readMetadata(ctx, CredentialNamespace, name); err != nil {
		return o, err
	}
	if o.Secret, err = r.readMetadata(ctx, r.Policy.Namespace, name); err != nil {
		return o, err
	}
	found := &identityv1.OCIClusterIdentity{}
	switch err := r.Objects.Get(ctx, types.NamespacedName{Namespace: r.Policy.Namespace, Name: name}, found); {
	case err == nil:
		o.Identity, o.Unseen = found, !identity.UnseenBy(r.Scope, found.Spec.AllowedNamespaces).None()
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("reading the OCIClusterIdentity: %w", err)
	}
	if err := r.readContent(ctx, &o); err != nil {
		return o, err
	}
	if o.obsolete(o.secretOwner()) {
		o.Named, err = r.isNamed(ctx, name, o.obsolete(o.identityOwner()))
	}
	return o, err
}

// readMetadata reads from the cache.
func (r *Reconciler) readMetadata(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	found := identity.SecretMetadata()
	switch err := r.Metadata.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, found); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none is an answer
	case err != nil:
		return nil, fmt.Errorf("reading the metadata of Secret %s/%s: %w", namespace, name, err)
	}
	found.ObjectMeta = marks(found.ObjectMeta)
	return found, nil
}

// readContent reads credential and Secret in states that were not read before. The metadata are those of what was read
// then: they can be newer than the cache.
func (r *Reconciler) readContent(ctx context.Context, o *Observation) error {
	if !promising(o.Credential) {
		return nil
	}
	name := o.Credential.Name
	if before, ok := r.memory.content(name, versionOf(o.Credential), versionOf(o.Secret)); ok {
		o.Content = before
		return nil
	}
	credential, err := r.readSecret(ctx, CredentialNamespace, name)
	if err != nil {
		return err
	}
	if o.Credential = metadataOf(credential); !promising(o.Credential) {
		return nil
	}
	defer oci.Forget(credential.Data)
	o.Content = Content{OCI: driverOf(o.Credential) == ociDriver || hasField(credential.Data)}
	if o.Content.OCI {
		if err := r.compare(ctx, o, credential.Data); err != nil {
			return err
		}
	}
	r.memory.noteContent(name, versionOf(o.Credential), versionOf(o.Secret), o.Content)
	return nil
}

// compare translates the data of a credential, and compares the principal Secret with that.
func (r *Reconciler) compare(ctx context.Context, o *Observation, credential map[string][]byte) error {
	region := r.Policy.regionOf(o.Credential)
	data, flaw := Translate(credential, region)
	defer oci.Forget(data)
	o.Content.Flaw, o.Content.Regionless = flaw, region == ""
	if flaw != "" {
		regionless, without := Translate(credential, "")
		oci.Forget(regionless)
		o.Content.Withdrawn = without != ""
	}
	if o.secretOwner() != ours || flaw != "" {
		return nil
	}
	secret, err := r.readSecret(ctx, r.Policy.Namespace, o.Credential.Name)
	if err != nil {
		return err
	}
	o.Secret = metadataOf(secret)
	if secret != nil {
		o.Content.Same = maps.EqualFunc(data, secret.Data, bytes.Equal)
		oci.Forget(secret.Data)
	}
	return nil
}

// promising reports whether a credential could be one to translate, by its metadata.
func promising(credential *metav1.PartialObjectMetadata) bool {
	return credential != nil && credential.DeletionTimestamp == nil && driverOf(credential) != otherDriver
}

// readSecret gets a Secret from the API server, nil if there is none.
func (r *Reconciler) readSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, err := oci.LiveReaders(r.Live).Secret(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return found, err
}

// isNamed reports whether an identity names the principal Secret, without its own if that is to go. Those that may name
// it are in its namespace, or in a trusted one, and both are seen wherever the instance works. Of others, those count
// that it sees.
func (r *Reconciler) isNamed(ctx context.Context, name string, withoutOwn bool) (bool, error) {
	list := &identityv1.OCIClusterIdentityList{}
	if err := r.Objects.List(ctx, list); err != nil {
		return false, fmt.Errorf("listing OCIClusterIdentities: %w", err)
	}
	for i := range list.Items {
		if withoutOwn && client.ObjectKeyFromObject(&list.Items[i]) == r.keyOf(name) {
			continue
		}
		if key, ok := r.secretOf(&list.Items[i]); ok && key == name {
			return true, nil
		}
	}
	return false, nil
}

// secretOf returns the name of the Secret that an identity names, if it is where principal Secrets are created.
func (r *Reconciler) secretOf(named *identityv1.OCIClusterIdentity) (string, bool) {
	for _, ref := range []corev1.SecretReference{named.Spec.PrincipalSecret, named.Spec.ClientSecret} {
		if ref.Namespace == r.Policy.Namespace && ref.Name != "" {
			return ref.Name, true
		}
	}
	return "", false
}

// versionOf returns the state of a Secret, the zero one if there is none.
func versionOf(of *metav1.PartialObjectMetadata) identity.Version {
	if of == nil {
		return identity.Version{}
	}
	return identity.VersionOf(of)
}

// metadataOf returns what is read of the metadata of a Secret, nil for none.
func metadataOf(secret *corev1.Secret) *metav1.PartialObjectMetadata {
	if secret == nil {
		return nil
	}
	object := identity.SecretMetadata()
	object.ObjectMeta = marks(secret.ObjectMeta)
	return object
}

// owner is who an object was created for.
type owner int

const (
	// absent is that there is no object.
	absent owner = iota
	// foreign is anybody else.
	foreign
	// ours is the credential that there is.
	ours
	// earlier is a credential that there is not any more.
	earlier
)

func (o Observation) secretOwner() owner {
	if o.Secret == nil {
		return absent
	}
	return ownerBy(o.Secret.Labels, o.wanted())
}

func (o Observation) identityOwner() owner {
	if o.Identity == nil {
		return absent
	}
	return ownerBy(o.Identity.Labels, o.wanted())
}

// obsolete reports whether what has this owner is to go when no cluster uses it: its credential is gone, or has no key.
func (o Observation) obsolete(of owner) bool {
	return of == earlier || of == ours && o.Content.Withdrawn
}

// ownerBy tells it by the label. A credential is gone if its name belongs to another UID, or to none.
func ownerBy(labels map[string]string, wanted types.UID) owner {
	switch uid := labels[infrav1.CredentialUIDLabel]; {
	case uid == "":
		return foreign
	case uid == string(wanted):
		return ours
	default:
		return earlier
	}
}
