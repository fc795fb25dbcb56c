package importer

import (
	"context"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// askCluster asks the API server for the CAPI cluster, for the cache may be older than what is decided on.
type askCluster struct{ why string }

func (q askCluster) String() string { return "the CAPI cluster, " + q.why }

func (q askCluster) read(ctx context.Context, r *Reconciler, o *Observation) error {
	current := &clusterv1.Cluster{}
	switch err := r.APIReader.Get(ctx, o.key, current); {
	case apierrors.IsNotFound(err):
		o.current[q.why] = nil
	case err != nil:
		return fmt.Errorf("confirming the CAPI cluster: %w", err)
	default:
		o.current[q.why] = current
	}
	return nil
}

// askRecord asks the API server for a Rancher cluster by its name. One of this cluster that the cache does not show,
// because it is new or has lost its labels, is a record from then on.
type askRecord struct {
	strategy  Strategy
	name, why string
	// derived: the cache shows it as one that Rancher derived from another Rancher cluster.
	derived bool
}

func (q askRecord) String() string { return "Rancher cluster " + recordID(q.strategy, q.name) + q.why }

func (q askRecord) read(ctx context.Context, r *Reconciler, o *Observation) error {
	found := &record{Object: q.strategy.NewObject(), strategy: q.strategy, unseen: true}
	switch err := r.liveInRancher().Get(ctx, q.strategy.Key(o.cluster, q.name), found.Object); {
	case apierrors.IsNotFound(err):
		o.live[recordID(q.strategy, q.name)] = nil
		return nil
	case err != nil:
		return fmt.Errorf("getting the %s Rancher cluster: %w", q.strategy.Kind(), err)
	}
	o.live[found.id()] = found
	switch cached := o.find(found.id()); {
	case !found.madeFor(o.cluster):
	case q.derived:
		o.learn(*found)
	case cached == nil:
		o.records = append(o.records, *found)
	case !cached.madeFor(o.cluster):
		*cached = *found
	}
	return nil
}

// named is the question for the record that was written ahead, and whether it is to be asked: the cache does not show
// that record, for a process may have died right after creating it. The annotation that names it can be written by
// others, so a record of another cluster is none of this one's.
func (d *deciding) named() (askRecord, bool) {
	return d.unseenRecord(d.cluster.Annotations[archelonv1.RecordAnnotation])
}

func (d *deciding) unseenRecord(id string) (askRecord, bool) {
	strategy, name, ok := d.splitID(id)
	if !ok || d.find(id) != nil {
		return askRecord{}, false
	}
	q := askRecord{strategy: strategy, name: name}
	return q, d.lacks(q)
}

// askOwned asks the API server for Rancher clusters that are labelled as those of this cluster.
type askOwned struct{}

func (askOwned) String() string { return "Rancher clusters of the CAPI cluster" }

func (askOwned) read(ctx context.Context, r *Reconciler, o *Observation) error {
	for _, strategy := range r.strategies() {
		list, within := strategy.NewList(), client.InNamespace(strategy.Key(o.cluster, "").Namespace)
		if err := r.liveInRancher().List(ctx, list, within, client.MatchingLabels{archelonv1.OwnerUIDLabel: string(o.cluster.UID)}); err != nil {
			return fmt.Errorf("looking for %s Rancher clusters of the CAPI cluster: %w", strategy.Kind(), err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o.learn(record{Object: item.(client.Object), strategy: strategy, unseen: true}) //nolint:forcetypeassert // a list of client.Objects
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mayOwnMore reports whether it is to be asked for records that the cluster does not name. A name is to be chosen for a
// cluster that was imported, or such a cluster is to be released: somebody may have changed the annotation, and the
// cache may be older than the record.
func (d *deciding) mayOwnMore() bool {
	return holds(d.cluster) && d.lacks(askOwned{})
}

// ownsAny reports whether a record is known that was created for this very cluster.
func (d *deciding) ownsAny() bool {
	return slices.ContainsFunc(d.records, func(r record) bool { return r.madeFor(d.cluster) || r.ending })
}

// askTwin asks for a CAPI cluster of the namespace and the name of a record.
type askTwin struct{ key client.ObjectKey }

func (q askTwin) String() string { return "CAPI cluster " + q.key.String() }

func (q askTwin) read(ctx context.Context, r *Reconciler, o *Observation) error {
	err := r.APIReader.Get(ctx, q.key, &clusterv1.Cluster{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for a CAPI cluster with the name of the Rancher cluster: %w", err)
	}
	o.twins[q.key] = err == nil
	return nil
}

// askNamespace asks for a namespace of the name of a record.
type askNamespace struct{ name string }

func (q askNamespace) String() string { return "namespace " + q.name }

func (q askNamespace) read(ctx context.Context, r *Reconciler, o *Observation) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(namespaceMetadata().GetObjectKind().GroupVersionKind())
	if err := r.liveInRancher().List(ctx, namespaces, client.MatchingFields{"metadata.name": q.name}); err != nil {
		return fmt.Errorf("looking for a namespace with the name of the Rancher cluster: %w", err)
	}
	o.namespaces[q.name] = len(namespaces.Items) > 0
	return nil
}

// askFreeName asks for a name for a record, besides one that is not free. A name must not be given that a record has,
// or a CAPI cluster, which Rancher would delete together with a v1 record of that name. Creating the record is the
// final test.
type askFreeName struct{ besides string }

func (q askFreeName) String() string { return fmt.Sprintf("a free name besides %q", q.besides) }

func (q askFreeName) read(ctx context.Context, r *Reconciler, o *Observation) error {
	o.free[q.besides] = r.Active.ProposeName(o.cluster, func(name string) bool {
		if name == q.besides {
			return true
		}
		key := r.Active.Key(o.cluster, name)
		return r.inRancher().Get(ctx, key, r.Active.NewObject()) == nil ||
			r.Active.Nature().TakesCluster && r.Client.Get(ctx, key, &clusterv1.Cluster{}) == nil
	})
	return nil
}

// askHolders asks who has a display name.
type askHolders struct{ name string }

func (q askHolders) String() string { return "the display name " + q.name }

func (q askHolders) read(ctx context.Context, r *Reconciler, o *Observation) error {
	holders, err := r.DisplayNames.Holders(ctx, q.name)
	o.holders[q.name] = holders
	return err
}

// askManagement asks for a v3 Cluster. The cache has what carries owner labels. A v3 Cluster from before its v1 record
// was adopted has none yet, and they can be taken off: then the API server is asked.
type askManagement struct {
	name string
	live bool
}

func (q askManagement) String() string { return "v3 Rancher cluster " + q.name }

func (q askManagement) read(ctx context.Context, r *Reconciler, o *Observation) error {
	cluster := &managementv3.Cluster{}
	err := r.inRancher().Get(ctx, client.ObjectKey{Name: q.name}, cluster)
	if apierrors.IsNotFound(err) && q.live {
		err = r.liveInRancher().Get(ctx, client.ObjectKey{Name: q.name}, cluster)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting the v3 Rancher cluster: %w", err)
	}
	if err == nil {
		o.managements[q.name] = &managed{object: cluster, ahead: r.writes.ahead(cluster)}
	}
	return nil
}

// askTurtles asks whether Rancher Turtles holds its Lease.
type askTurtles struct{}

func (askTurtles) String() string { return "the Lease of Rancher Turtles" }

func (askTurtles) read(ctx context.Context, r *Reconciler, o *Observation) error {
	leases := &coordinationv1.LeaseList{}
	if err := r.Client.List(ctx, leases); err != nil {
		return fmt.Errorf("looking for the Lease of Rancher Turtles: %w", err)
	}
	o.lease = r.turtles.Look(leases.Items, r.Clock.Now())
	return nil
}

// askPrincipal asks whether the infrastructure may work with its principal.
type askPrincipal struct{}

func (askPrincipal) String() string { return "the principal of the infrastructure" }

func (askPrincipal) read(ctx context.Context, r *Reconciler, o *Observation) error {
	if r.Principals != nil {
		o.principalNote, o.unpermitted = r.Principals.Permits(ctx, o.cluster)
	}
	return nil
}

// askOthers asks whether another instance, which runs, works on the cluster.
type askOthers struct{}

func (askOthers) String() string { return "other instances" }

func (askOthers) read(_ context.Context, r *Reconciler, o *Observation) error {
	by := o.cluster.Annotations[archelonv1.InstanceAnnotation]
	o.elsewhere = by != "" && by != r.Self.String() && r.Runs != nil && r.Runs(by)
	return nil
}

// askJob asks whether work in the workload cluster has yet to end.
type askJob struct{}

func (askJob) String() string { return "the work in the workload cluster" }

func (askJob) read(_ context.Context, r *Reconciler, o *Observation) error {
	o.busy = r.jobs.Running(o.key)
	return nil
}

// askHolding asks for how much longer a cluster is remembered that is gone.
type askHolding struct{}

func (askHolding) String() string { return "what is remembered of the cluster" }

func (askHolding) read(_ context.Context, r *Reconciler, o *Observation) error {
	o.left = r.holdings.expire(o.key, r.Clock.Now())
	return nil
}
