package importer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	r.recall(cluster)
	if o.behind = r.writes.ahead(cluster); o.behind {
		return o, nil
	}
	r.holdings.note(cluster)
	namespace := metadataOf("Namespace")
	if err := r.Client.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("getting namespace: %w", err)
	}
	o.namespace = namespace.Labels
	o.kept = r.Keeps != nil && r.Keeps(cluster, o.namespace)
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

// recordsOf returns the Rancher clusters that name the CAPI cluster, of every kind and sorted by
// identity, and those that Rancher derived from one of them. They come from the cache.
func (r *Reconciler) recordsOf(ctx context.Context, cluster *clusterv1.Cluster) (records, derived []record, err error) {
	keys := []string{cluster.Namespace + "/" + cluster.Name, "/" + cluster.Name}
	if cluster.UID != "" {
		keys = append(keys, string(cluster.UID))
	}
	owned := make([]client.ListOption, len(keys))
	for i, key := range keys {
		owned[i] = client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(ownerIndex, key)}
	}
	for _, strategy := range r.strategies() {
		seen := map[string]bool{}
		within := client.InNamespace(strategy.Key(cluster, "").Namespace)
		for _, byKey := range owned {
			list := strategy.NewList()
			// A record is found by more than one key, and copied once.
			if err := r.inRancher().List(ctx, list, within, byKey, client.UnsafeDisableDeepCopy); err != nil {
				return nil, nil, fmt.Errorf("listing %s Rancher clusters: %w", strategy.Kind(), err)
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				if name := item.(client.Object).GetName(); seen[name] { //nolint:forcetypeassert // a list of client.Objects
					return nil
				}
				object := item.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the same
				seen[object.GetName()] = true
				found := record{Object: object, strategy: strategy}
				if strategy.Derived(object) {
					derived = append(derived, found)
				} else {
					records = append(records, found)
				}
				return nil
			})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	records, moved := splitDerived(records)
	slices.SortFunc(records, func(a, b record) int { return strings.Compare(a.id(), b.id()) })
	return records, append(derived, moved...), nil
}

// splitDerived sets those apart that another record names as the v3 Cluster which Rancher made from it, whatever became
// of the annotation that says so. Rancher would delete that record together with the v3 Cluster.
func splitDerived(records []record) (own, derived []record) {
	behind := map[string]bool{}
	for _, record := range records {
		if !record.strategy.Nature().Itself {
			behind[record.strategy.ManagementName(record.Object)] = true
		}
	}
	for _, record := range records {
		if record.strategy.Nature().Itself && behind[record.GetName()] {
			derived = append(derived, record)
		} else {
			own = append(own, record)
		}
	}
	return own, derived
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

// namespaceAssignment returns the labels of a Namespace that has ManagedByLabel, none for any other.
func (r *Reconciler) namespaceAssignment(ctx context.Context, name string) (map[string]string, error) {
	namespace := metadataOf("Namespace")
	switch err := r.assigned.Get(ctx, client.ObjectKey{Name: name}, namespace); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting the namespace: %w", err)
	}
	return namespace.Labels, nil
}
