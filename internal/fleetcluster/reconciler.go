package fleetcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
)

// conflictRetry is when a Fleet Cluster is looked at again that has changed: the event of a change of something else
// than its labels wakes nothing.
const conflictRetry = time.Second

// Reconciler has the labels of Fleet Clusters follow the ClusterClass of their CAPI Clusters.
type Reconciler struct {
	// Client reads from the manager's cache.
	Client client.Reader
	// Rancher reads from the cache of Rancher's cluster and writes there.
	Rancher client.Client
	// Claim is what this instance works on, and Self what it is called on what it imports.
	Claim instance.Claim
	Self  instance.ID
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	var result ctrl.Result
	var errs []error
	for _, action := range Decide(o) {
		ctrl.LoggerFrom(ctx).Info("Acting", "action", action.String())
		if err := action.do(ctx, r); apierrors.IsConflict(err) {
			result.RequeueAfter = conflictRetry
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", action, err))
		}
	}
	return result, errors.Join(errs...)
}
