package capi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// setUp adds the controller of Clusters. Of Secrets it receives metadata: a cache that selects those with label
// cluster.x-k8s.io/cluster-name keeps it small.
func (p *Provider) setUp(mgr manager.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).Named(p.opts.Name).
		For(&clusterv1.Cluster{}, builder.WithPredicates(p.opts.Predicates...)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			// That of controller-runtime v0.24.1 can hang when it is shut down while requests wait.
			UsePriorityQueue: new(false),
		})
	if !p.opts.UnwatchedSecrets {
		build = build.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(p.secretChanged),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}))
	}
	err := build.Complete(reconcile.Func(p.reconcile))
	if err != nil {
		return fmt.Errorf("building controller %s: %w", p.opts.Name, err)
	}
	return nil
}

// secretChanged has the Clusters look at their kubeconfig again. Nothing of the Cluster itself has changed.
func (p *Provider) secretChanged(_ context.Context, secret client.Object) []reconcile.Request {
	for _, m := range p.membersOf(secret) {
		m.kubeconfigChanged()
	}
	return nil
}

// membersOf returns those whose kubeconfig a Secret may hold.
func (p *Provider) membersOf(secret client.Object) []*member {
	var found []*member
	if p.opts.ClustersOf != nil {
		for _, key := range p.opts.ClustersOf(secret) {
			if m := p.member(NameOf(key)); m != nil {
				found = append(found, m)
			}
		}
		return found
	}
	p.mu.RLock()
	members := slices.Collect(maps.Values(p.members))
	p.mu.RUnlock()
	for _, m := range members {
		ccl, _ := m.cluster()
		if from, err := p.opts.Source(ccl); err == nil && from.Secret == client.ObjectKeyFromObject(secret) {
			found = append(found, m)
		}
	}
	return found
}

// reconcile discovers a Cluster. It is quick: what takes time is done by the cluster's own goroutine.
func (p *Provider) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ccl := &clusterv1.Cluster{}
	err := p.reader.Get(ctx, request.NamespacedName, ccl)
	switch {
	case apierrors.IsNotFound(err):
		p.forget(NameOf(request.NamespacedName))
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("getting Cluster %s: %w", request.NamespacedName, err)
	case leaving(ccl) || !p.opts.Select(ccl):
		p.forget(NameOf(request.NamespacedName))
		return reconcile.Result{}, nil
	}
	p.ensure(ctx, ccl)
	return reconcile.Result{}, nil
}
