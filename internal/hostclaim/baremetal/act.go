package baremetal

import (
	"context"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
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
