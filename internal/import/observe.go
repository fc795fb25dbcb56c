package importer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// observe reads what every run needs. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	o := newObservation(key)
	if !r.Claim.Scope.Owns(key.Namespace) {
		// A label or a name led here. What the cache does not hold must not be taken for gone.
		o.outside = true
		return o, nil
	}
	var err error
	if r.Withdrawn != nil {
		if o.withdrawn, err = r.Withdrawn(ctx, key.Namespace); err != nil || o.withdrawn {
			return o, err
		}
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, key, cluster); apierrors.IsNotFound(err) {
		o.holding = r.holdings.uid(key)
		gone := &clusterv1.Cluster{}
		gone.Namespace, gone.Name = key.Namespace, key.Name
		o.records, _, err = r.recordsOf(ctx, gone)
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("getting CAPI cluster: %w", err)
	}
	o.cluster = cluster
	r.recall(ctx, cluster)
	if o.behind = r.writes.ahead(cluster); o.behind {
		return o, nil
	}
	r.holdings.note(cluster)
	namespace := metadataOf("Namespace")
	if err := r.Client.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("getting namespace: %w", err)
	}
	o.namespace = namespace.Labels
	o.kept = r.Keeps != nil && r.Keeps(cluster.Annotations[archelonv1.InstanceAnnotation], key.Namespace)
	if !r.responsible(o) && !r.lets(o) && !leftBehind(cluster) {
		return o, nil
	}
	return o, r.observeRecords(ctx, o)
}

// observeRecords reads what there is about a cluster that is worked on.
func (r *Reconciler) observeRecords(ctx context.Context, o *Observation) error {
	var err error
	if o.records, o.derived, err = r.recordsOf(ctx, o.cluster); err != nil {
		return err
	}
	for i := range o.records {
		o.records[i].ahead = r.writes.ahead(o.records[i].Object)
	}
	if o.assigning, err = r.namespaceAssignment(ctx, o.key.Namespace); err != nil {
		return err
	}
	o.answered[askPrincipal{}.String()] = r.Principals == nil
	if err := r.observeManagement(ctx, o); err != nil {
		return err
	}
	o.agentGone = r.AgentGone != nil && r.AgentGone(o.key)
	o.creation, o.taken = r.creations.of(o.cluster.UID), r.takings.Of(o.key)
	if made := o.find(o.creation.id); made != nil && made.madeFor(o.cluster) {
		r.creations.forget(o.cluster.UID)
	}
	return nil
}

// observeManagement reads the v3 Cluster behind the record that the cluster names, if the cache shows it.
func (r *Reconciler) observeManagement(ctx context.Context, o *Observation) error {
	followed := o.find(o.cluster.Annotations[archelonv1.RecordAnnotation])
	if followed == nil || followed.strategy.ManagementName(followed.Object) == "" {
		return nil
	}
	look := askManagement{name: followed.strategy.ManagementName(followed.Object)}
	if err := look.read(ctx, r, o); err != nil {
		return err
	}
	o.answered[look.String()] = o.managements[look.name] != nil
	return nil
}

// leftBehind reports whether there may be something to see to on a cluster that this instance does not claim.
func leftBehind(cluster *clusterv1.Cluster) bool {
	return cluster.DeletionTimestamp.IsZero() && !paused(cluster) &&
		(holds(cluster) || conditions.Has(cluster, archelonv1.RancherImportedCondition))
}
