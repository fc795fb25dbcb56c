package rolekeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

// lookAgain is the pause before the rights go after something was let go: a reconcile that had begun may still have made a record then.
const lookAgain = time.Second

// ending reports whether a namespace is being deleted. Kubernetes deletes what is in a namespace after it has noted that, so a namespace without
// the note stays.
func (r *Reconciler) ending(ctx context.Context, name string) (bool, error) {
	namespace := metadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return deleting(namespace), nil
}

// release releases what names this instance in a namespace which stays, and what was created for it, as long as it has
// the permissions. Both stay as they are otherwise: whoever is given the namespace goes on with them. It returns how
// much it found. Without the permissions nothing is found.
func (r *Reconciler) release(ctx context.Context, namespace string) (int, error) {
	// A RoleBinding to another role may grant less.
	nothing := func(context.Context, string, error) error { return nil }
	within := hold.Lister{Reader: r.APIReader, Namespaces: []string{namespace}, CreatedFor: namespace, Forbidden: nothing}
	found := 0
	release := func(holding hold.Holding, object *hold.Object) error {
		found++
		return hold.Release(ctx, r.Client, object, func() { holding.Drop(object, false) })
	}
	mine := []string{"", r.Self.String()}
	errs := within.Visit(ctx, hold.Visitor{
		Created: func(holding hold.Holding, created, owner *hold.Object) error {
			// It may have been created a moment after its object was released, which names nobody then.
			if owner == nil || !slices.Contains(mine, owner.Annotations[archelonv1.InstanceAnnotation]) {
				return nil
			}
			return release(holding, created)
		},
		Held: func(holding hold.Holding, held *hold.Object) error {
			if held.Annotations[archelonv1.InstanceAnnotation] != r.Self.String() {
				return nil
			}
			if err := release(holding, held); err != nil {
				return err
			}
			log := ctrl.LoggerFrom(ctx).WithValues("cluster", client.ObjectKeyFromObject(held).String(),
				"rancherCluster", held.Annotations[archelonv1.RecordAnnotation])
			log.Info("Let go of a CAPI cluster, whose namespace is taken from this instance")
			if deleting(held) {
				log.Info("The CAPI cluster was being deleted: its Rancher cluster stays, delete it in Rancher")
			}
			return nil
		},
	})
	return found, errors.Join(errs[:min(len(errs), 3)]...) // They mostly have one cause.
}
