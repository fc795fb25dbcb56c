package rancher

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// phase is one of Rancher's handlers of an object. It returns how long it waits for something
// that no watch reports; it is called again on every event anyhow.
type phase func(context.Context, *unstructured.Unstructured) (time.Duration, error)

func (r *reactor) setupClusters(_ context.Context, mgr ctrl.Manager) error {
	byNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
	})
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetName()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("v3-cluster").
		For(newObject(clusterGVK)).
		// A filled token may be what a redeployment waits for. That one is deleted, Rancher's own handler does not see.
		Watches(newObject(tokenGVK), byNamespace).
		Watches(newObject(provisioningGVK), handler.EnqueueRequestsFromMapFunc(clusterOfProvisioning)).
		WatchesMetadata(&corev1.Namespace{}, byName, builder.WithPredicates(systemNamespaces())).
		WatchesRawSource(r.Standin.clusters.source()).
		Complete(r.reconciler("v3 Cluster", r.reconcileCluster))
}

func (r *reactor) reconcileCluster(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	cluster := newObject(clusterGVK)
	if err := r.client.Get(ctx, key, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.fresh.forget(named(cluster, key))
			r.tokenMade.forget(named(cluster, key))
			r.forgetCluster(key.Name)
			return 0, nil
		}
		return 0, err
	}
	if r.fresh.stale(cluster) {
		return conflictDelay, nil
	}
	if !cluster.GetDeletionTimestamp().IsZero() {
		return r.deleteCluster(ctx, cluster)
	}
	var waits []time.Duration
	for _, run := range []phase{
		r.markCluster,
		r.assignWorkspace,
		r.ensureCompanion,
		r.ensureNamespace,
		r.migrateSecrets,
		r.ensureDefaultToken,
		r.followAgent,
	} {
		wait, err := run(ctx, cluster)
		if err != nil {
			return 0, err
		}
		waits = append(waits, wait)
	}
	return soonest(waits...), nil
}

// forgetCluster drops what is remembered of a cluster that no longer exists. Its agent, if
// there is one, is refused from now on.
func (r *reactor) forgetCluster(name string) {
	r.delays.forget(clusterOwner(name), "")
	if session, ok := r.sessions.dropCluster(name); ok {
		r.log.Info("the agent lost its cluster", "cluster", name, "workload", session.workload)
		r.fleet.wake(session.workload, 0)
	}
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	delete(r.state.cleanups, name)
}

// clusterOwner is the key under which waits of a v3 Cluster are kept.
func clusterOwner(name string) string { return "cluster/" + name }

// clusterOfProvisioning maps a v1 Cluster to its v3 Cluster.
func clusterOfProvisioning(_ context.Context, obj client.Object) []reconcile.Request {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	name := text(u, "status", "clusterName")
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}
