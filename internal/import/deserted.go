package importer

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// elsewherePoll is the pause before another look whether the instance is gone that a cluster is left to. No object of
// the cluster tells.
const elsewherePoll = 15 * time.Second

// leaveBehind sees to one thing for a cluster that this instance does not claim: that its record can go when somebody
// deletes it in Rancher. The watch filter's label may have been taken off a cluster that was imported, and then nobody
// claims it, but our finalizers are still there. Several instances may do this at the same time: the optimistic lock
// lets one of them through.
func (r *Reconciler) leaveBehind(ctx context.Context, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	if !cluster.DeletionTimestamp.IsZero() || paused(cluster) || !holds(cluster) && !conditions.Has(cluster, archelonv1.RancherImportedCondition) {
		return ctrl.Result{}, nil
	}
	s, err := r.newScope(ctx, cluster)
	if err != nil || !s.removalPending() {
		return ctrl.Result{}, err
	}
	if r.runsElsewhere(cluster) {
		return ctrl.Result{RequeueAfter: elsewherePoll}, nil
	}
	out := r.observeRemoval(ctx, s)
	if out.IsDone() {
		out = r.checkPermission(ctx, s)
	}
	if out.IsDone() {
		return ctrl.Result{}, nil
	}
	return r.finish(ctx, s, out)
}

// removalPending reports whether a record was deleted in Rancher of which the cluster, or its condition, has yet to say
// so.
func (s *scope) removalPending() bool {
	for _, old := range append(append([]record{}, s.records...), s.derived...) {
		if old.deleting() && (old.held() || holds(s.cluster) && old.madeFor(s.cluster)) {
			return true
		}
	}
	// A run that let the record go may have ended before it could say so.
	return !holds(s.cluster) && conditions.IsTrue(s.cluster, archelonv1.RancherImportedCondition)
}
