package baremetal

import (
	"context"
	"errors"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	do(ctx context.Context, r *Reconciler) error
}

// changeHost writes what differs between two versions of a host, if the API server has the first one.
type changeHost struct {
	before, after *bmov1.BareMetalHost
	what          string
}

// String implements fmt.Stringer.
func (c changeHost) String() string {
	return fmt.Sprintf("BareMetalHost %s: %s", keyOf(c.before), c.what)
}

func (c changeHost) do(ctx context.Context, r *Reconciler) error {
	return r.patch(ctx, c.before, c.after.DeepCopy())
}

// changeClaim writes what differs between the metadata of two versions of a claim, if the API server has the first one.
type changeClaim struct {
	before, after *metal3v1.HostClaim
	what          string
	// warning is told if it succeeds.
	warning *Warning
}

// String implements fmt.Stringer.
func (c changeClaim) String() string {
	return fmt.Sprintf("HostClaim %s: %s", client.ObjectKeyFromObject(c.before), c.what)
}

func (c changeClaim) do(ctx context.Context, r *Reconciler) error {
	if err := r.patch(ctx, c.before, c.after.DeepCopy()); err != nil {
		return err
	}
	if c.warning != nil {
		r.warn(c.before, *c.warning)
	}
	return nil
}

// patch fails if the API server does not have the version before.
func (r *Reconciler) patch(ctx context.Context, before, after client.Object) error {
	locked := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return r.Client.Patch(ctx, after, locked, client.FieldOwner(FieldOwner))
}

// copySecret puts a copy of one state of a Secret beside the host.
type copySecret struct {
	source   *metav1.PartialObjectMetadata
	to       types.NamespacedName
	replaces *metav1.PartialObjectMetadata
	claim    *metal3v1.HostClaim
	host     *bmov1.BareMetalHost
}

// String implements fmt.Stringer.
func (c copySecret) String() string {
	return fmt.Sprintf("Secret %s: copy it to %s", client.ObjectKeyFromObject(c.source), c.to)
}

func (c copySecret) do(ctx context.Context, r *Reconciler) error {
	source := &corev1.Secret{}
	if err := r.Read.Live.Get(ctx, client.ObjectKeyFromObject(c.source), source); err != nil {
		return err
	}
	if source.UID != c.source.UID || source.ResourceVersion != c.source.ResourceVersion {
		return overtakenSecret(c.source.Name)
	}
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.to.Namespace, Name: c.to.Name,
			Labels: map[string]string{
				metal3v1.ClaimUIDLabel: string(c.claim.UID), metal3v1.SourceLabel: hostclaim.Version(c.source),
				metal3v1.EnvironmentLabel: "baremetal",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: bmov1.GroupVersion.String(), Kind: "BareMetalHost", Name: c.host.Name, UID: c.host.UID,
			}},
		},
		Type: source.Type, Data: source.Data,
	}
	if c.replaces == nil {
		// A host that was released meanwhile is not to get a copy that nobody takes away.
		if host, err := r.Read.host(ctx, keyOf(c.host)); err != nil {
			return err
		} else if host == nil || !ownedBy(host, c.claim) {
			return overtakenSecret(c.to.Name)
		}
		if err := r.Client.Create(ctx, copied, client.FieldOwner(FieldOwner)); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return overtakenSecret(c.to.Name) // The cache does not have it yet.
	}
	before := &corev1.Secret{}
	if err := r.Read.Live.Get(ctx, c.to, before); err != nil {
		return err
	}
	switch {
	case before.UID != c.replaces.UID || before.ResourceVersion != c.replaces.ResourceVersion:
		return overtakenSecret(c.to.Name)
	case before.Type != copied.Type:
		// It cannot be changed. The event of the deletion has it created again.
		return removeCopy{c.replaces}.do(ctx, r)
	}
	after := before.DeepCopy()
	after.Labels, after.OwnerReferences, after.Data = copied.Labels, copied.OwnerReferences, copied.Data
	return r.patch(ctx, before, after)
}

// overtakenSecret is what the API server says to a write that is based on an old version.
func overtakenSecret(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, name, errOld)
}

var errOld = errors.New("it has changed")

// removeCopy removes the copy of a Secret.
type removeCopy struct{ found *metav1.PartialObjectMetadata }

// String implements fmt.Stringer.
func (c removeCopy) String() string {
	return fmt.Sprintf("Secret %s: remove it", client.ObjectKeyFromObject(c.found))
}

func (c removeCopy) do(ctx context.Context, r *Reconciler) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.found.Namespace, Name: c.found.Name}}
	return client.IgnoreNotFound(r.Client.Delete(ctx, secret, client.Preconditions{
		UID: &c.found.UID, ResourceVersion: &c.found.ResourceVersion,
	}))
}
