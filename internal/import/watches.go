package importer

import (
	"context"
	"maps"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// clusterChanged admits changes of a CAPI cluster that can change what the import does. CAPI updates the
// status of a Cluster often. Resyncs pass, as a net under everything else.
func clusterChanged(own *told) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*clusterv1.Cluster)
			after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
			if !ok || !ok2 || before.ResourceVersion == after.ResourceVersion {
				return true
			}
			return before.UID != after.UID ||
				paused(before) != paused(after) ||
				before.Spec.Topology.ClassRef != after.Spec.Topology.ClassRef ||
				controlPlaneUp(before) != controlPlaneUp(after) ||
				quoted(before) != quoted(after) ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				!maps.Equal(before.Labels, after.Labels) ||
				!maps.Equal(before.Annotations, after.Annotations) ||
				!slices.Equal(before.Finalizers, after.Finalizers) ||
				lostCondition(own, before, after)
		},
	}
}

// lostCondition reports whether somebody else changed our condition, which a restored backup does for example. What
// this process wrote last itself is none of it.
func lostCondition(own *told, before, after *clusterv1.Cluster) bool {
	return !equality.Semantic.DeepEqual(
		meta.FindStatusCondition(before.GetConditions(), archelonv1.RancherImportedCondition), meta.FindStatusCondition(after.GetConditions(), archelonv1.RancherImportedCondition)) && !own.has(after)
}

// settingMatters admits the settings of Rancher that an import reads.
func settingMatters() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return slices.Contains(rancher.SettingNames(), object.GetName())
	})
}

// clustersIn returns the CAPI clusters of a namespace.
func (r *Reconciler) clustersIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.clusters(ctx, client.InNamespace(namespace.GetName()))
}

// clustersNotImported returns the CAPI clusters whose import is under way: they may wait for a setting.
func (r *Reconciler) clustersNotImported(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.clusters(ctx, client.MatchingFields{pendingIndex: pending})
}

// instanceGone wakes the CAPI clusters that were left to another instance, when that does not run any more, or claims
// something else. Among those that select namespaces by their labels, clusters that name none may be left, too. The
// caller must not wait, so the clusters are looked up in a goroutine: a cache makes the lookup wait until it is synced.
func (r *Reconciler) instanceGone(tell func(wake func(instance string)) (stop func())) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		stop := tell(func(instance string) {
			go func() {
				for _, request := range r.clustersThat(ctx, func(cluster *clusterv1.Cluster) bool {
					by := cluster.Annotations[archelonv1.InstanceAnnotation]
					return by == instance || r.Claim.Selector != nil && by != r.Self.String()
				}) {
					queue.Add(request)
				}
			}()
		})
		context.AfterFunc(ctx, stop)
		return nil
	})
}

// clusters returns the CAPI clusters in the cache that the options select.
func (r *Reconciler) clusters(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return r.clustersThat(ctx, func(*clusterv1.Cluster) bool { return true }, options...)
}

// clustersThat returns those of the CAPI clusters that fit.
func (r *Reconciler) clustersThat(ctx context.Context, fits func(*clusterv1.Cluster) bool, options ...client.ListOption) []reconcile.Request {
	list := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		// A read from the cache fails only when the cache stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing CAPI clusters failed")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		if fits(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// clusterOfRecord returns the CAPI cluster that a Rancher cluster names as its owner. One that lost a label wakes
// all clusters that it may stand for.
func (r *Reconciler) clusterOfRecord(ctx context.Context, object client.Object) []reconcile.Request {
	labels := object.GetLabels()
	name, namespace := labels[archelonv1.OwnerNameLabel], labels[archelonv1.OwnerNamespaceLabel]
	if name != "" && namespace != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	}
	// A v1 record lies beside its CAPI cluster; a v3 record has no namespace.
	within := client.InNamespace(object.GetNamespace())
	var requests []reconcile.Request
	if name != "" {
		requests = r.clustersThat(ctx, func(c *clusterv1.Cluster) bool { return c.Name == name }, within,
			client.MatchingFields{wantedNameIndex: rancher.FoldDisplayName(name)})
	}
	for _, uid := range ownerUIDs(object) {
		requests = append(requests, r.clusters(ctx, within, client.MatchingFields{uidIndex: uid})...)
	}
	return requests // One that is among them twice is enqueued once.
}

// clustersOfRecord returns the CAPI cluster of a record, and the one that Rancher would take along with the record:
// that one waits for the record to go.
func (r *Reconciler) clustersOfRecord(strategy Strategy) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		requests, key := r.clusterOfRecord(ctx, object), client.ObjectKeyFromObject(object)
		if strategy.Nature().TakesCluster && r.Client.Get(ctx, key, &clusterv1.Cluster{}) == nil {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
}

// clusterOfNamesake returns the CAPI cluster whose v1 record has the name of a CAPI cluster that has gone: it waits for
// that to be able to go itself.
func (r *Reconciler) clusterOfNamesake(ctx context.Context, object client.Object) []reconcile.Request {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	for _, strategy := range r.strategies() {
		if !strategy.Nature().TakesCluster {
			continue
		}
		if record := strategy.NewObject(); r.inRancher().Get(ctx, strategy.Key(cluster, cluster.Name), record) == nil {
			requests = append(requests, r.clusterOfRecord(ctx, record)...)
		}
		// The cache does not show a record that has lost its labels.
		requests = append(requests, r.clusters(ctx, client.InNamespace(cluster.Namespace),
			client.MatchingFields{takingIndex: recordID(strategy, cluster.Name)})...)
	}
	return requests // One that is among them twice is enqueued once.
}

// clustersOfName returns the CAPI clusters whose record has, or would have, the display name of a v3 Cluster.
func (r *Reconciler) clustersOfName(ctx context.Context, named *rancher.NamedCluster) []reconcile.Request {
	return r.clusters(ctx, client.MatchingFields{wantedNameIndex: rancher.FoldDisplayName(named.Spec.DisplayName)})
}

// gone admits deletions.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// going admits what is deleted, or begins to be.
func going() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// nameChanged admits what changes who has a display name. Rancher updates the status of a v3 Cluster often.
func nameChanged() predicate.TypedPredicate[*rancher.NamedCluster] {
	return predicate.TypedFuncs[*rancher.NamedCluster]{
		UpdateFunc: func(e event.TypedUpdateEvent[*rancher.NamedCluster]) bool {
			return !rancher.SameName(e.ObjectOld, e.ObjectNew)
		},
	}
}

// clustersWaitingFor returns the CAPI clusters whose workload cluster has the agent of a v3 Cluster, which goes, and
// has it looked at again at once.
func (r *Reconciler) clustersWaitingFor(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range r.contests.of(object.GetName()) {
		r.jobs.LookAgain(key)
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// clusterOfBackingNamespace returns the CAPI cluster whose Rancher cluster has the namespace of the object: the
// name of that namespace is the name of the v3 Cluster.
func (r *Reconciler) clusterOfBackingNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	cluster := &managementv3.Cluster{}
	if err := r.inRancher().Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, cluster); err != nil {
		// Not one of ours, or not in the cache yet: its own arrival will wake the CAPI cluster.
		return nil
	}
	return r.clusterOfRecord(ctx, cluster)
}

// clusterOfKubeconfig returns the CAPI cluster whose kubeconfig a Secret holds. One that is not in the cache yet is
// woken by its own arrival.
func (r *Reconciler) clusterOfKubeconfig(ctx context.Context, secret client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range kubeconfig.ClustersOf(secret) {
		cluster := &clusterv1.Cluster{}
		if r.Client.Get(ctx, key, cluster) != nil {
			continue
		}
		if from, err := kubeconfig.Of(cluster); err == nil && from.Secret == client.ObjectKeyFromObject(secret) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	return requests
}

// principalChanged wakes the clusters whose infrastructure may work with another principal now.
func (r *Reconciler) principalChanged() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Principals.Subscribe(func(kind string, infrastructure types.NamespacedName) {
			for _, request := range r.clusters(ctx, client.InNamespace(infrastructure.Namespace),
				client.MatchingFields{infrastructureIndex: infrastructureKey(kind, infrastructure.Name)}) {
				queue.Add(request)
			}
		})
		return nil
	})
}
