package importer

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// formerOverlap is a condition that earlier versions set, with a field manager of its own.
const (
	formerOverlap      = "RancherImportScopeOverlap"
	formerOverlapOwner = fieldOwner + "-overlap"
)

// takeOver puts this instance on a cluster that another one worked on, before anything else is done to it: a write that
// the other one has sent before it was frozen fails then, because the cluster has changed. A new import is marked when
// its record's name is written ahead.
func (r *Reconciler) takeOver(ctx context.Context, s *scope) outcome.Outcome {
	if conditions.Has(s.cluster, formerOverlap) {
		if err := r.applyConditions(ctx, s.cluster, formerOverlapOwner); err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("removing condition %s: %w", formerOverlap, err))
		}
	}
	previous := s.cluster.Annotations[archelonv1.InstanceAnnotation]
	begun := s.cluster.Annotations[archelonv1.RecordAnnotation] != "" || holds(s.cluster)
	if !begun || previous == r.Self.String() {
		return outcome.Done()
	}
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.InstanceAnnotation, r.Self.String())
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("taking over the CAPI cluster: %w", err))
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Took over the cluster", "instance", r.Self.String(), "from", previous)
	return outcome.Done()
}

// runsElsewhere reports whether another instance, which runs, works on a cluster.
func (r *Reconciler) runsElsewhere(cluster *clusterv1.Cluster) bool {
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	return by != "" && by != r.Self.String() && r.Runs != nil && r.Runs(by)
}
