package importer

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// overlapOwner is the field manager of the condition about overlaps. It is apart from fieldOwner, so that either condition can go without
// the other.
const overlapOwner = fieldOwner + "-overlap"

// standAside leaves a cluster alone that another living instance works on. It writes nothing to the cluster: that is the other's, and so is the
// condition that tells of the overlap.
func (r *Reconciler) standAside(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if s.intent == intentIdle && !conditions.Has(s.cluster, archelonv1.RancherImportedCondition) {
		r.aside.forget(s.key())
		return false, ctrl.Result{}, nil // Nothing will be written.
	}
	verdict, err := r.Peers.OwnerOf(ctx, s.cluster)
	switch {
	case err != nil:
		return false, ctrl.Result{}, err
	case verdict.By == instance.ID{} && !verdict.Mine:
		return true, ctrl.Result{RequeueAfter: verdict.Retry}, nil
	case verdict.Mine:
		s.rivals = verdict.Rivals
		r.aside.forget(s.key())
		return false, ctrl.Result{}, nil
	}
	r.forget(s.key())
	if r.aside.note(s.key(), verdict.By) {
		r.event(s, corev1.EventTypeWarning, archelonv1.ScopesOverlapReason,
			"Instance %s works on this cluster; instance %s, which claims it as well, leaves it alone: %s", verdict.By, r.Peers.Self(), overlapRemedy)
		ctrl.LoggerFrom(ctx).Info("Left the cluster to another instance, which claims it as well", "instance", r.Peers.Self().String(), "peer", verdict.By.String())
	}
	// When the other one goes, its Lease wakes this cluster. That it does not take the cluster, no event tells.
	return true, ctrl.Result{RequeueAfter: verdict.Retry}, nil
}

const overlapRemedy = "correct --namespace, --excluded-namespace or --watch-filter of one of them"

// takeOver puts this instance on a cluster that another one worked on, or may work on, before anything else is done to it. The optimistic lock decides
// between instances that do so at the same time. Where nobody else is about, a new import is marked when its record's name is written ahead.
func (r *Reconciler) takeOver(ctx context.Context, s *scope) outcome.Outcome {
	begun := s.cluster.Annotations[archelonv1.RecordAnnotation] != "" || holds(s.cluster)
	contested := len(s.rivals) > 0 && s.intent == intentImport
	if !begun && !contested || s.cluster.Annotations[archelonv1.InstanceAnnotation] == r.Peers.Self().String() {
		return outcome.Done()
	}
	previous := s.cluster.Annotations[archelonv1.InstanceAnnotation]
	err := r.patchCluster(ctx, s.cluster, func(cluster *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, archelonv1.InstanceAnnotation, r.Peers.Self().String())
	})
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("taking over the CAPI cluster: %w", err))
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Took over the cluster", "instance", r.Peers.Self().String(), "from", previous)
	return outcome.Done()
}

// publishOverlap says on a cluster that is worked on which other instances claim it as well, and takes it back when they do not any more, or
// when nobody works on the cluster any more.
func (r *Reconciler) publishOverlap(ctx context.Context, s *scope) error {
	before := conditions.Get(s.cluster, archelonv1.ScopeOverlapCondition)
	if !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	if len(s.rivals) == 0 || !holds(s.cluster) {
		if before == nil {
			return nil
		}
		return r.applyConditions(ctx, s.cluster, overlapOwner)
	}
	after := &metav1.Condition{
		Type: archelonv1.ScopeOverlapCondition, Status: metav1.ConditionTrue, Reason: archelonv1.ScopesOverlapReason, ObservedGeneration: s.cluster.Generation,
		Message: overlapMessage(r.Peers.Self(), s.rivals),
	}
	if sameState(before, after) {
		return nil
	}
	r.stampTransition(before, after)
	return r.applyConditions(ctx, s.cluster, overlapOwner, *after)
}

// mostRivals is how many rivals a condition names. More may claim a cluster than fit into a message.
const mostRivals = 5

func overlapMessage(self instance.ID, rivals []instance.ID) string {
	names := make([]string, 0, mostRivals)
	for _, rival := range rivals[:min(len(rivals), mostRivals)] {
		names = append(names, rival.String())
	}
	others := strings.Join(names, ", ")
	if more := len(rivals) - len(names); more > 0 {
		others = fmt.Sprintf("%s and %d more", others, more)
	}
	return fmt.Sprintf("Instance %s works on this cluster and %s claims it as well: %s", self, others, overlapRemedy)
}

// clustersInScope returns all CAPI clusters: another instance has come or gone, and may have left some of them.
func (r *Reconciler) clustersInScope(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.clusters(ctx)
}

// aside remembers which clusters were left to which instance.
type aside struct {
	metrics *Metrics
	mu      sync.Mutex
	to      map[types.NamespacedName]instance.ID
	counts  map[instance.ID]int
}

func newAside(metrics *Metrics) *aside {
	metrics.left.Reset()
	return &aside{metrics: metrics, to: map[types.NamespacedName]instance.ID{}, counts: map[instance.ID]int{}}
}

// note reports whether it is news that the cluster is left to the instance.
func (a *aside) note(key types.NamespacedName, to instance.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.to[key]
	if known && before == to {
		return false
	}
	if known {
		a.count(before, -1)
	}
	a.to[key] = to
	a.count(to, 1)
	return true
}

func (a *aside) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to, known := a.to[key]; known {
		a.count(to, -1)
		delete(a.to, key)
	}
}

// count changes how many clusters are left to an instance. The lock is held.
func (a *aside) count(to instance.ID, change int) {
	a.counts[to] += change
	a.metrics.leftTo(to.String(), a.counts[to])
	if a.counts[to] == 0 {
		delete(a.counts, to)
	}
}
