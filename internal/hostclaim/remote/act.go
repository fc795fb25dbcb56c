package remote

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action = reconcile.Action[*run]

// changeSource writes what differs between the metadata of two versions of a source, if the
// API server has the first one.
type changeSource struct {
	before, after *metal3v1.HostClaim
	what          string
	// warning is told if it succeeds.
	warning *hostclaim.Warning
}

// String implements fmt.Stringer.
func (c changeSource) String() string {
	return fmt.Sprintf("HostClaim %s: %s", client.ObjectKeyFromObject(c.before), c.what)
}

// Do implements reconcile.Action.
func (c changeSource) Do(ctx context.Context, r *run) error {
	if err := r.Client.Patch(ctx, c.after.DeepCopy(), reconcile.Locked(c.before), client.FieldOwner(FieldOwner)); err != nil {
		return err
	}
	if c.warning != nil {
		r.warn(c.before, *c.warning)
	}
	return nil
}

// createTarget creates a target. It is tried first, so that none comes to be of which the other cluster drops a part:
// it could be one of another kind.
type createTarget struct{ source, target *metal3v1.HostClaim }

// String implements fmt.Stringer.
func (c createTarget) String() string { return "creating the claim in the other cluster" }

// Do implements reconcile.Action.
func (c createTarget) Do(ctx context.Context, r *run) error {
	// A source that has gone meanwhile is not to get a target that nobody deletes.
	if err := r.unchanged(ctx, c.source); err != nil {
		return err
	}
	for _, opts := range [][]client.CreateOption{{client.DryRunAll}, nil} {
		created := c.target.DeepCopy()
		if err := r.there.Create(ctx, created, append(opts, client.FieldOwner(FieldOwner))...); err != nil {
			return err
		}
		if err := complete(c.target, created); err != nil {
			return err
		}
	}
	return nil
}

// unchanged fails unless the source is as it was when an action was decided on. No precondition of a write to the other
// cluster can say so.
func (r *Reconciler) unchanged(ctx context.Context, source *metal3v1.HostClaim) error {
	now := &metal3v1.HostClaim{}
	if err := r.Read.Live.Get(ctx, client.ObjectKeyFromObject(source), now); err != nil {
		return err
	}
	if now.UID != source.UID || now.ResourceVersion != source.ResourceVersion {
		return reconcile.Outdated("hostclaims", source.Name)
	}
	return nil
}

// complete fails if the other cluster has not kept all of a target.
func complete(sent, kept *metal3v1.HostClaim) error {
	if dropped := differing(sent.Spec, kept.Spec); len(dropped) > 0 {
		return refuse(
			metal3v1.RemoteDropsFieldsReason,
			"The remote cluster drops "+strings.Join(dropped, ", ")+" of HostClaims. Install the CRD of HostClaims of Archelon there",
		)
	}
	return nil
}

// changeTarget writes what differs between two versions of a target, if the other cluster has the first one. It is
// tried first as well: a write drops what a CRD there that somebody has replaced does not have.
type changeTarget struct {
	source, before, after *metal3v1.HostClaim
	// warning is told of the source if it succeeds.
	warning *hostclaim.Warning
}

// String implements fmt.Stringer.
func (c changeTarget) String() string { return "changing the claim in the other cluster" }

// Do implements reconcile.Action.
func (c changeTarget) Do(ctx context.Context, r *run) error {
	if err := c.patch(ctx, r.there, client.DryRunAll); err != nil {
		return err
	}
	if err := r.unchanged(ctx, c.source); err != nil {
		return err
	}
	if err := c.patch(ctx, r.there); err != nil {
		return err
	}
	if c.warning != nil {
		r.warn(c.source, *c.warning)
	}
	return nil
}

func (c changeTarget) patch(ctx context.Context, there Cluster, opts ...client.PatchOption) error {
	kept := c.after.DeepCopy()
	if err := there.Patch(ctx, kept, reconcile.Locked(c.before), append(opts, client.FieldOwner(FieldOwner))...); err != nil {
		return err
	}
	return complete(c.after, kept)
}

// deleteTarget deletes the version of a target that was seen, and no other one.
type deleteTarget struct{ source, target *metal3v1.HostClaim }

// String implements fmt.Stringer.
func (d deleteTarget) String() string { return "deleting the claim in the other cluster" }

// Do implements reconcile.Action.
func (d deleteTarget) Do(ctx context.Context, r *run) error {
	// A source that was to leave its target there in the meantime keeps it, and its host with it.
	if err := r.unchanged(ctx, d.source); err != nil {
		return err
	}
	target := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.target.Namespace, Name: d.target.Name}}
	return r.there.Delete(ctx, target, client.Preconditions{UID: &d.target.UID, ResourceVersion: &d.target.ResourceVersion})
}

// copySecret puts a copy of one state of a Secret beside the target.
type copySecret struct {
	// source is nil if the copy describes the stand-in and nothing else.
	source *metav1.PartialObjectMetadata
	// standIn is what the copy describes, nil for nothing.
	standIn  *hostclaim.StandIn
	to       types.NamespacedName
	origin   string
	replaces *metav1.PartialObjectMetadata
	// target is nil if there is none yet. It owns the copy.
	target *metal3v1.HostClaim
}

// String implements fmt.Stringer.
func (c copySecret) String() string {
	if c.source == nil {
		return fmt.Sprintf("creating Secret %s in the other cluster", c.to.Name)
	}
	return fmt.Sprintf("copying Secret %s to the other cluster", c.source.Name)
}

// Do implements reconcile.Action.
func (c copySecret) Do(ctx context.Context, r *run) error {
	source, err := hostclaim.Source(ctx, r.Read.Live, c.source, c.standIn)
	if err != nil {
		return err
	}
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.to.Namespace, Name: c.to.Name,
			Labels: map[string]string{metal3v1.OriginLabel: c.origin, metal3v1.SourceLabel: hostclaim.CopyVersion(c.source, c.standIn)},
		},
		Type: source.Type, Data: source.Data,
	}
	if c.target != nil {
		copied.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: metal3v1.GroupVersion.String(), Kind: metal3v1.HostClaimKind, Name: c.target.Name, UID: c.target.UID,
		}}
	}
	if c.replaces == nil {
		err := r.there.Create(ctx, copied, client.FieldOwner(FieldOwner))
		if apierrors.IsAlreadyExists(err) {
			return refuse(
				metal3v1.RemoteConflictReason, "The remote cluster has another Secret "+c.to.String()+", with the name of a copy. Delete it there",
			)
		}
		return err
	}
	return hostclaim.Replace(ctx, r.there, r.there, FieldOwner, c.replaces, copied)
}

// removeCopy removes the copy of a Secret.
type removeCopy struct{ found *metav1.PartialObjectMetadata }

// String implements fmt.Stringer.
func (c removeCopy) String() string { return "removing a Secret from the other cluster" }

// Do implements reconcile.Action.
func (c removeCopy) Do(ctx context.Context, r *run) error {
	return hostclaim.Remove(ctx, r.there, c.found)
}
