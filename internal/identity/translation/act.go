package translation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do. It decides nothing, and prints as what it does, without a secret.
type Action = reconcile.Action[*Reconciler]

// writeSecret creates the principal Secret, or replaces the data of the one that is ours.
type writeSecret struct {
	name string
	// credential and replaces are the states that were decided on.
	credential, replaces identity.Version
}

// String implements fmt.Stringer.
func (w writeSecret) String() string { return "write the principal Secret " + w.name }

// Do implements reconcile.Action.
func (w writeSecret) Do(ctx context.Context, r *Reconciler) error {
	credential, err := r.unchanged(ctx, w.name, w.credential)
	if err != nil || credential == nil {
		return err
	}
	defer oci.Forget(credential.Data)
	data, flaw := Translate(credential.Data, r.Policy.regionOf(metadataOf(credential)))
	if flaw != "" {
		return reconcile.Outdated("secrets", w.name) // The same state of it was decided on, and had none.
	}
	defer oci.Forget(data)
	if w.replaces == (identity.Version{}) {
		return r.create(ctx, &corev1.Secret{
			ObjectMeta: r.metaFor(credential), Type: corev1.SecretTypeOpaque, Data: data,
		}, "secrets")
	}
	before, err := r.readSecret(ctx, r.Policy.Namespace, w.name)
	switch {
	case err != nil:
		return err
	case before == nil || versionOf(metadataOf(before)) != w.replaces:
		return reconcile.Outdated("secrets", w.name)
	}
	after := before.DeepCopy()
	after.Data = data
	return r.patch(ctx, before, after)
}

// createIdentity creates the identity of a credential.
type createIdentity struct {
	name       string
	credential identity.Version
	spec       identityv1.OCIClusterIdentitySpec
}

// String implements fmt.Stringer.
func (c createIdentity) String() string { return "create OCIClusterIdentity " + c.name }

// Do implements reconcile.Action.
func (c createIdentity) Do(ctx context.Context, r *Reconciler) error {
	credential, err := r.unchanged(ctx, c.name, c.credential)
	if err != nil || credential == nil {
		return err
	}
	defer oci.Forget(credential.Data)
	return r.create(ctx, &identityv1.OCIClusterIdentity{ObjectMeta: r.metaFor(credential), Spec: c.spec}, "ociclusteridentities")
}

// changeIdentity gives an identity that is ours its spec back.
type changeIdentity struct {
	before *identityv1.OCIClusterIdentity
	spec   identityv1.OCIClusterIdentitySpec
}

// String implements fmt.Stringer.
func (c changeIdentity) String() string { return "change OCIClusterIdentity " + c.before.Name }

// Do implements reconcile.Action.
func (c changeIdentity) Do(ctx context.Context, r *Reconciler) error {
	after := c.before.DeepCopy()
	after.Spec = c.spec
	return r.patch(ctx, c.before, after)
}

// removeIdentity removes an identity whose credential is gone.
type removeIdentity struct {
	identity *identityv1.OCIClusterIdentity
	// credential is what now has its name.
	credential identity.Version
}

// String implements fmt.Stringer.
func (x removeIdentity) String() string { return "remove OCIClusterIdentity " + x.identity.Name }

// Do implements reconcile.Action.
func (x removeIdentity) Do(ctx context.Context, r *Reconciler) error {
	return r.remove(ctx, x.identity, x.credential)
}

// removeSecret removes a principal Secret whose credential is gone.
type removeSecret struct {
	secret     *metav1.PartialObjectMetadata
	credential identity.Version
}

// String implements fmt.Stringer.
func (x removeSecret) String() string { return "remove the principal Secret " + x.secret.Name }

// Do implements reconcile.Action.
func (x removeSecret) Do(ctx context.Context, r *Reconciler) error {
	// The cache may not have the identity yet that was created with the Secret, and one that was removed may be held.
	found := &identityv1.OCIClusterIdentity{}
	err := r.Live.Get(ctx, r.keyOf(x.secret.Name), found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the identity of the Secret: %w", err)
	}
	if name, _ := r.secretOf(found); err == nil && name == x.secret.Name {
		return reconcile.Outdated("secrets", x.secret.Name)
	}
	return r.remove(ctx, &corev1.Secret{ObjectMeta: x.secret.ObjectMeta}, x.credential)
}

// remove deletes an object in the state that was decided on, if the credential still is in its own.
func (r *Reconciler) remove(ctx context.Context, object client.Object, credential identity.Version) error {
	found, err := r.unchanged(ctx, object.GetName(), credential)
	if err != nil {
		return err
	}
	if found != nil {
		oci.Forget(found.Data)
	}
	return reconcile.DeleteSeen(ctx, r.Client, object) // With its CRD an identity goes for which no event may come.
}

// unchanged returns the credential as it is now, nil if there is none, if that is the state that was decided on. A
// cache that lags must not be believed when keys are handed out or removed.
func (r *Reconciler) unchanged(ctx context.Context, name string, state identity.Version) (*corev1.Secret, error) {
	found, err := r.readSecret(ctx, CredentialNamespace, name)
	if err != nil {
		return nil, err
	}
	if versionOf(metadataOf(found)) != state {
		if found != nil {
			oci.Forget(found.Data)
		}
		return nil, reconcile.Outdated("secrets", name)
	}
	return found, nil
}

// metaFor is the metadata of what is created for a credential.
func (r *Reconciler) metaFor(credential *corev1.Secret) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: r.Policy.Namespace, Name: credential.Name,
		Labels: map[string]string{infrav1.CredentialUIDLabel: string(credential.UID)},
	}
}

// create is overtaken if there is one already, whoever created it: the cache does not have it yet. That there is no
// such namespace is an error: nothing wakes the controller when there is.
func (r *Reconciler) create(ctx context.Context, object client.Object, resource string) error {
	switch err := r.Client.Create(ctx, object, client.FieldOwner(FieldOwner)); {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Outdated(resource, object.GetName())
	case apierrors.IsNotFound(err):
		return errors.New(err.Error())
	default:
		return err
	}
}

// patch is overtaken if the API server does not have the version before.
func (r *Reconciler) patch(ctx context.Context, before, after client.Object) error {
	return r.Client.Patch(ctx, after, reconcile.Locked(before), client.FieldOwner(FieldOwner))
}

// keyOf names an object that is created.
func (r *Reconciler) keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Policy.Namespace, Name: name}
}
