package machines

import (
	"context"
	"errors"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// retryMax is how long a Machine waits at most of which something failed.
const retryMax = 2 * time.Minute

// Options of the controller.
type Options struct {
	// Concurrency is the number of Machines that are worked on at the same time.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 || r.Client == nil || r.Recorder == nil {
		return errors.New(
			"the controller of Metal3Machines needs a client, a recorder of events, a cache of its own, and a concurrency " +
				"of at least 1",
		)
	}
	r.Read = Readers{Own: options.Own, Clusters: mgr.GetCache(), Live: mgr.GetAPIReader()}
	changed := predicate.ResourceVersionChangedPredicate{}
	work := reconcile.Work{
		Name: ControllerName, Concurrency: options.Concurrency, Own: options.Own, RetryMax: retryMax,
	}
	in := func(ctx context.Context, namespace string) []ctrl.Request {
		return r.machines(ctx, client.InNamespace(namespace))
	}
	return r.Place.Add(mgr, work, in, []reconcile.Watch{
		{Object: newMachine(), Own: true, Requests: reconcile.Itself, Admits: changed},
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: reconcile.Itself, Admits: changed},
		{Object: &bmov1.BareMetalHost{}, Own: true, Requests: reconcile.Itself, Admits: changed},
		{Object: &clusterv1.Cluster{}, Requests: r.ofCluster, Admits: hostclaim.PausedChanged()},
	}, r)
}

// ofCluster returns the Machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.machines(
		ctx, client.InNamespace(object.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()},
	)
}

// machines returns the requests of some Machines.
func (r *Reconciler) machines(ctx context.Context, which ...client.ListOption) []ctrl.Request {
	list := newMachineList()
	if err := r.Read.Own.List(ctx, list, which...); err != nil {
		return nil // The cache stops.
	}
	requests := make([]ctrl.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}
