package agenthealth

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/internal/agent"
	described "github.com/archelon-io/archelon/internal/controller"
)

// ControllerName is the name of the controller in logs and metrics.
const ControllerName = "agent-health"

// workers is how many clusters are looked at side by side. A look reads from caches.
const workers = 4

// AddToManager adds the controller to the manager of the fleet. It tells agents what it finds.
func AddToManager(mgr mcmanager.Manager, agents *Agents) error {
	if agents == nil {
		return errors.New("the health of agents needs a subscriber")
	}
	r := &reconciler{mgr: mgr, agents: agents}
	err := mcbuilder.ControllerManagedBy(mgr).Named(ControllerName).
		Watches(&appsv1.Deployment{}, mchandler.EnqueueRequestsFromMapFunc(theAgent)).
		WatchesMetadata(&corev1.Secret{}, mchandler.EnqueueRequestsFromMapFunc(theAgent)).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			MaxConcurrentReconciles: workers, UsePriorityQueue: new(false),
			// multicluster-runtime v0.24.1 does not take it from its manager.
			SkipNameValidation: mgr.GetControllerOptions().SkipNameValidation,
		}).
		// What has left is to be forgotten.
		WithClusterNotFoundWrapper(false).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// theAgent is the one object of a cluster that is looked at.
func theAgent(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: agent.Namespace, Name: agent.DeploymentName}}}
}

type reconciler struct {
	mgr    mcmanager.Manager
	agents *Agents
}

// Reconcile implements reconcile.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	key, err := keyOf(request.ClusterName)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	cluster, err := r.mgr.GetCluster(ctx, request.ClusterName)
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		r.agents.forget(key)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	o, err := observe(ctx, cluster.GetClient(), request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.agents.note(key, Complete(o))
	return ctrl.Result{}, nil
}

// keyOf returns the CAPI Cluster that a name stands for.
func keyOf(name multicluster.ClusterName) (types.NamespacedName, error) {
	namespace, of, ok := strings.Cut(string(name), string(types.Separator))
	if !ok {
		return types.NamespacedName{}, fmt.Errorf("cluster %q is not named after a CAPI Cluster", name)
	}
	return types.NamespacedName{Namespace: namespace, Name: of}, nil
}

// observe reads from the cache of the workload cluster.
func observe(ctx context.Context, from client.Reader, key types.NamespacedName) (Observation, error) {
	var o Observation
	found := &appsv1.Deployment{}
	switch err := from.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("reading the Deployment of the agent: %w", err)
	}
	o.Agent = found
	name := agent.CredentialsOf(found)
	if !strings.HasPrefix(name, agent.CredentialsPrefix) {
		o.Credentials = true // It is not one of Rancher's names, and is not received.
		return o, nil
	}
	secret := described.MetadataOf(corev1.SchemeGroupVersion, "Secret")
	switch err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, secret); {
	case err == nil:
		o.Credentials = true
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("reading the Secret of the agent: %w", err)
	}
	return o, nil
}
