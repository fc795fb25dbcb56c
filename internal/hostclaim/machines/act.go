package machines

import (
	"context"
	"encoding/json"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action = reconcile.Action[*Reconciler]

// create creates a claim or a proxy.
type create struct{ object client.Object }

// String implements fmt.Stringer.
func (c create) String() string { return "creating " + describe(c.object) }

// Do implements reconcile.Action.
func (c create) Do(ctx context.Context, r *Reconciler) error {
	created, _ := c.object.DeepCopyObject().(client.Object)
	if _, claim := c.object.(*metal3v1.HostClaim); claim {
		if err := r.waits(ctx, client.ObjectKeyFromObject(c.object), c.object.GetOwnerReferences()[0].UID); err != nil {
			return err
		}
	}
	err := r.Client.Create(ctx, created, client.FieldOwner(FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// The cache does not have it yet, or it is somebody else's.
	if err := r.Read.Live.Get(ctx, client.ObjectKeyFromObject(c.object), created); err != nil {
		return err
	}
	switch created := created.(type) {
	case *metal3v1.HostClaim:
		if isClaim(created) {
			return nil
		}
	case *bmov1.BareMetalHost:
		if isProxy(created) {
			return nil
		}
	}
	return fmt.Errorf("%s exists already and does not belong to this Metal3Machine. Delete it, or create the Machine under another name", describe(c.object))
}

// waits asks the API server whether a Machine still waits for a host. A cache may have seen the end of an
// earlier claim, and not that the Machine got a host by it.
func (r *Reconciler) waits(ctx context.Context, machine types.NamespacedName, uid types.UID) error {
	live := controller.MetadataOf(machineKind().GroupVersion(), machineKind().Kind)
	if err := r.Read.Live.Get(ctx, machine, live); err != nil {
		return err
	}
	if live.UID != uid || live.DeletionTimestamp != nil || live.Annotations[metal3v1.HostAnnotation] != "" {
		return reconcile.Outdated("metal3machines", live.Name)
	}
	return nil
}

// change writes what differs between two versions of a claim, if the API server has the first one.
type change struct{ before, after *metal3v1.HostClaim }

// String implements fmt.Stringer.
func (c change) String() string {
	return "having " + describe(c.before) + " ask for what its Machine does"
}

// Do implements reconcile.Action.
func (c change) Do(ctx context.Context, r *Reconciler) error {
	return r.Client.Patch(ctx, c.after.DeepCopy(), reconcile.Locked(c.before), client.FieldOwner(FieldOwner))
}

// tell writes the state of a proxy, if the API server has the version before. It is written whole: a proxy has none at
// first, and a part of one is refused.
type tell struct{ before, after *bmov1.BareMetalHost }

// String implements fmt.Stringer.
func (t tell) String() string { return "telling of the host in " + describe(t.before) }

// Do implements reconcile.Action.
func (t tell) Do(ctx context.Context, r *Reconciler) error {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": t.before.ResourceVersion}, "status": t.after.Status,
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, raw)
	return r.Client.Status().Patch(ctx, t.before.DeepCopy(), patch, client.FieldOwner(FieldOwner))
}

// remove deletes the claim or the proxy that was seen, and no other one.
type remove struct{ object client.Object }

// String implements fmt.Stringer.
func (d remove) String() string { return "deleting " + describe(d.object) }

// Do implements reconcile.Action.
func (d remove) Do(ctx context.Context, r *Reconciler) error {
	uid, version := d.object.GetUID(), d.object.GetResourceVersion()
	gone, _ := d.object.DeepCopyObject().(client.Object)
	return client.IgnoreNotFound(r.Client.Delete(ctx, gone, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// describe names a claim or a host.
func describe(object client.Object) string {
	kind := "HostClaim"
	if _, host := object.(*bmov1.BareMetalHost); host {
		kind = "BareMetalHost"
	}
	return kind + " " + client.ObjectKeyFromObject(object).String()
}
