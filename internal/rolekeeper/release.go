package rolekeeper

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookAgain is the pause before the rights go after something was let go: a reconcile that had begun may
// still have made a record then.
const lookAgain = time.Second

// ending reports whether a namespace is being deleted. Kubernetes deletes what is in a namespace after it has noted
// that, so a namespace without the note stays.
func (r *Reconciler) ending(ctx context.Context, name string) (bool, error) {
	namespace := metadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return deleting(namespace), nil
}
