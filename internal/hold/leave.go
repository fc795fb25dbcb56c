package hold

import (
	"context"
	"errors"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Leave releases what names an instance in a namespace that the instance gives up, and what was created for it. Both
// stay as they are otherwise: whoever is given the namespace goes on with them. It returns how much it found. Where
// permissions are missing nothing is found.
func Leave(
	ctx context.Context, reader client.Reader, c client.Client, holdings []Holding, namespace, instance string,
) (int, error) {
	nothing := func(context.Context, string, error) error { return nil }
	// Without feature host-claim there are no permissions for claims, and none are held.
	within := Lister{
		Reader: reader, Holdings: holdings, Namespaces: []string{namespace}, CreatedFor: namespace, Forbidden: nothing,
	}
	found := 0
	release := func(holding Holding, object *Object) error {
		found++
		return Release(ctx, c, object, func() { holding.Drop(object, false) })
	}
	mine := []string{"", instance}
	errs := within.Visit(ctx, Visitor{
		Created: func(holding Holding, created, owner *Object) error {
			// It may have been created a moment after its object was released, which names nobody then.
			if owner == nil || !slices.Contains(mine, owner.Annotations[archelonv1.InstanceAnnotation]) {
				return nil
			}
			return release(holding, created)
		},
		Held: func(holding Holding, held *Object) error {
			if !holding.Unmarked && held.Annotations[archelonv1.InstanceAnnotation] != instance {
				return nil
			}
			if err := release(holding, held); err != nil {
				return err
			}
			if holding.Unmarked {
				ctrl.LoggerFrom(ctx).Info("Released an object in a namespace that is not this instance's any more",
					"kind", holding.Kind.Kind, "object", client.ObjectKeyFromObject(held).String())
				return nil
			}
			log := ctrl.LoggerFrom(ctx).WithValues("cluster", client.ObjectKeyFromObject(held).String(),
				"rancherCluster", held.Annotations[archelonv1.RecordAnnotation])
			log.Info("Let go of a CAPI cluster, whose namespace is not this instance's any more")
			if !held.DeletionTimestamp.IsZero() {
				log.Info("The CAPI cluster was being deleted: its Rancher cluster stays, delete it in Rancher")
			}
			return nil
		},
	})
	return found, errors.Join(errs[:min(len(errs), 3)]...) // They mostly have one cause.
}
