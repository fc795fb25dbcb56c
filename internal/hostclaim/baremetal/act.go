package baremetal

import (
	"context"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action = reconcile.Action[*Reconciler]

// changeHost writes what differs between two versions of a host, if the API server has the first one.
type changeHost struct {
	before, after *bmov1.BareMetalHost
	what          string
	// warning is told if it succeeds.
	warning *hostclaim.Warning
}

// String implements fmt.Stringer.
func (c changeHost) String() string {
	return fmt.Sprintf("BareMetalHost %s: %s", keyOf(c.before), c.what)
}

// Do implements reconcile.Action.
func (c changeHost) Do(ctx context.Context, r *Reconciler) error {
	err := r.Client.Patch(ctx, c.after.DeepCopy(), reconcile.Locked(c.before), client.FieldOwner(FieldOwner))
	if err == nil && c.warning != nil {
		r.warn(c.before, *c.warning)
	}
	return err
}

// parkHost parks the host of a paused claim, which ends what keeps clusterctl waiting. The claim is moved as the API
// server has it at that moment, so that has to say which host the claim waits for there. A cache can be older than the
// end of an earlier pause, which took that off the claim.
type parkHost struct {
	changeHost
	claim *metal3v1.HostClaim
}

// Do implements reconcile.Action.
func (p parkHost) Do(ctx context.Context, r *Reconciler) error {
	live := controller.MetadataOf(metal3v1.GroupVersion, metal3v1.HostClaimKind)
	if err := r.Read.Live.Get(ctx, client.ObjectKeyFromObject(p.claim), live); err != nil {
		return err
	}
	if live.UID != p.claim.UID || live.Annotations[metal3v1.ParkedAnnotation] != keyOf(p.before).String() {
		return reconcile.Outdated("hostclaims", p.claim.Name)
	}
	return p.changeHost.Do(ctx, r)
}

// changeClaim writes what differs between the metadata of two versions of a claim, if the API server has the first one.
type changeClaim struct {
	before, after *metal3v1.HostClaim
	what          string
	// warning is told if it succeeds.
	warning *hostclaim.Warning
}

// String implements fmt.Stringer.
func (c changeClaim) String() string {
	return fmt.Sprintf("HostClaim %s: %s", client.ObjectKeyFromObject(c.before), c.what)
}

// Do implements reconcile.Action.
func (c changeClaim) Do(ctx context.Context, r *Reconciler) error {
	if err := r.Client.Patch(ctx, c.after.DeepCopy(), reconcile.Locked(c.before), client.FieldOwner(FieldOwner)); err != nil {
		return err
	}
	if c.warning != nil {
		r.warn(c.before, *c.warning)
	}
	return nil
}

// copySecret puts a copy of one state of a Secret beside the host.
type copySecret struct {
	// source is nil if the copy describes the stand-in and nothing else.
	source *metav1.PartialObjectMetadata
	// standIn is what the copy describes, nil for nothing.
	standIn  *hostclaim.StandIn
	to       types.NamespacedName
	replaces *metav1.PartialObjectMetadata
	claim    *metal3v1.HostClaim
	host     *bmov1.BareMetalHost
}

// String implements fmt.Stringer.
func (c copySecret) String() string {
	if c.source == nil {
		return fmt.Sprintf("Secret %s: create it", c.to)
	}
	return fmt.Sprintf("Secret %s: copy it to %s", client.ObjectKeyFromObject(c.source), c.to)
}

// Do implements reconcile.Action.
func (c copySecret) Do(ctx context.Context, r *Reconciler) error {
	source, err := hostclaim.Source(ctx, r.Read.Live, c.source, c.standIn)
	if err != nil {
		return err
	}
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.to.Namespace, Name: c.to.Name,
			Labels: map[string]string{
				metal3v1.ClaimUIDLabel: string(c.claim.UID), metal3v1.SourceLabel: hostclaim.CopyVersion(c.source, c.standIn),
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
			return reconcile.Outdated("secrets", c.to.Name)
		}
		if err := r.Client.Create(ctx, copied, client.FieldOwner(FieldOwner)); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return reconcile.Outdated("secrets", c.to.Name) // The cache does not have it yet.
	}
	return hostclaim.Replace(ctx, r.Read.Live, r.Client, FieldOwner, c.replaces, copied)
}

// removeCopy removes the copy of a Secret.
type removeCopy struct{ found *metav1.PartialObjectMetadata }

// String implements fmt.Stringer.
func (c removeCopy) String() string {
	return fmt.Sprintf("Secret %s: remove it", client.ObjectKeyFromObject(c.found))
}

// Do implements reconcile.Action.
func (c removeCopy) Do(ctx context.Context, r *Reconciler) error {
	return hostclaim.Remove(ctx, r.Client, c.found)
}
