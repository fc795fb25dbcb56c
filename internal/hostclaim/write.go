package hostclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Warning is something that people should know.
type Warning struct{ Reason, Note string }

// SetCondition sets a condition in what is to be the status of a claim.
func SetCondition(claim *metal3v1.HostClaim, status *metal3v1.HostClaimStatus, condition metav1.Condition, now time.Time) {
	condition.ObservedGeneration = claim.Generation
	condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	condition.Message = Bounded(condition.Message)
	meta.SetStatusCondition(&status.Conditions, condition)
}

// Publish writes the status of a claim if it is another than before, and returns the claim with it, nil if nothing was
// written.
func Publish(
	ctx context.Context, c client.StatusClient, owner client.FieldOwner, claim *metal3v1.HostClaim, status *metal3v1.HostClaimStatus,
) (*metal3v1.HostClaim, error) {
	if claim == nil || status == nil || equality.Semantic.DeepEqual(&claim.Status, status) {
		return nil, nil
	}
	after := claim.DeepCopy()
	after.Status = *status
	if err := c.Status().Patch(ctx, after, reconcile.Locked(claim), owner); err != nil {
		return nil, fmt.Errorf("publishing the status: %w", err)
	}
	return after, nil
}

// StateOf reads a Secret that is as it was seen.
func StateOf(ctx context.Context, from client.Reader, seen *metav1.PartialObjectMetadata) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := from.Get(ctx, client.ObjectKeyFromObject(seen), secret); err != nil {
		return nil, err
	}
	if secret.UID != seen.UID || secret.ResourceVersion != seen.ResourceVersion {
		return nil, reconcile.Outdated("secrets", seen.Name)
	}
	return secret, nil
}

// Changer changes what there is.
type Changer interface {
	Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error
	Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error
}

// Replace has the copy of a Secret that was seen be another one.
func Replace(
	ctx context.Context, from client.Reader, by Changer, owner client.FieldOwner, seen *metav1.PartialObjectMetadata, copied *corev1.Secret,
) error {
	before, err := StateOf(ctx, from, seen)
	if err != nil {
		return err
	}
	if before.Type != copied.Type {
		// It cannot be changed. The event of the deletion has it created again.
		return Remove(ctx, by, seen)
	}
	after := before.DeepCopy()
	after.Labels, after.OwnerReferences, after.Data = copied.Labels, copied.OwnerReferences, copied.Data
	return by.Patch(ctx, after, reconcile.Locked(before), owner)
}

// Remove removes the copy of a Secret that was seen.
func Remove(ctx context.Context, by Changer, seen *metav1.PartialObjectMetadata) error {
	return reconcile.DeleteSeen(ctx, by, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID, ResourceVersion: seen.ResourceVersion,
	}})
}
