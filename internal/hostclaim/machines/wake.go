package machines

import (
	"context"
	"maps"
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// watches are what wakes the controller.
func (r *Reconciler) watches() []reconcile.Watch {
	changed := predicate.ResourceVersionChangedPredicate{}
	return []reconcile.Watch{
		{Object: newMachine(), Own: true, Requests: r.ofMachine, Admits: changed},
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: r.ofPair, Admits: changed},
		{Object: &bmov1.BareMetalHost{}, Own: true, Requests: r.ofPair, Admits: changed},
		{Object: &clusterv1.Cluster{}, Requests: r.ofCluster, Admits: predicate.Or(hostclaim.PausedChanged(), hostclaim.DeletionBegan())},
	}
}

// ofMachine returns a Machine, and the pairs that it owns or consumes. If one of them was left for the next Machine,
// that can have it once this one is gone.
func (r *Reconciler) ofMachine(ctx context.Context, object client.Object) []ctrl.Request {
	names, err := r.names(ctx, object)
	if err != nil {
		return nil // The cache stops.
	}
	woken := map[string]bool{object.GetName(): true}
	for _, name := range names {
		woken[name] = true
		r.waiting(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: name}, nil, woken)
	}
	return requests(object.GetNamespace(), woken)
}

// ofPair returns the Machines of a claim or a proxy: those that own it, its consumer, the one of its name, and those
// that may get it.
func (r *Reconciler) ofPair(ctx context.Context, object client.Object) []ctrl.Request {
	woken := map[string]bool{object.GetName(): true}
	if owners := machinesOf(object); len(owners) <= maxMachines {
		for name := range owners {
			woken[name] = true
		}
	}
	proxy, _ := object.(*bmov1.BareMetalHost)
	r.waiting(ctx, client.ObjectKeyFromObject(object), proxy, woken)
	return requests(object.GetNamespace(), woken)
}

// waiting adds the consumer of a proxy, and the Machines of the group that it was left for which have no host.
func (r *Reconciler) waiting(ctx context.Context, key types.NamespacedName, proxy *bmov1.BareMetalHost, woken map[string]bool) {
	if proxy == nil {
		proxy = &bmov1.BareMetalHost{}
		if err := r.Read.Own.Get(ctx, key, proxy); err != nil {
			return // There is none, or the cache stops.
		}
	}
	if !isProxy(proxy) {
		return
	}
	if name := consumer(proxy); name != "" {
		woken[name] = true
	}
	of := tagged(proxy)
	if of == "" {
		return
	}
	list := newMachineList()
	if err := r.Read.Own.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{groupIndex: of}); err != nil {
		return
	}
	for i := range list.Items {
		if list.Items[i].GetAnnotations()[metal3v1.HostAnnotation] == "" {
			woken[list.Items[i].GetName()] = true
		}
	}
}

// ofCluster returns the Machines of a Cluster, and its claims.
func (r *Reconciler) ofCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.in(ctx, object.GetNamespace(), client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()})
}

// in returns the requests of some Machines and claims of a namespace.
func (r *Reconciler) in(ctx context.Context, namespace string, which ...client.ListOption) []ctrl.Request {
	which = append(which, client.InNamespace(namespace))
	list, woken := newMachineList(), map[string]bool{}
	if err := r.Read.Own.List(ctx, list, which...); err != nil {
		return nil // The cache stops.
	}
	for i := range list.Items {
		woken[list.Items[i].GetName()] = true
	}
	hostclaim.Each(ctx, r.Read.Own, func(claim *metal3v1.HostClaim) { woken[claim.Name] = true }, which...)
	return requests(namespace, woken)
}

// requests returns those of some names.
func requests(namespace string, names map[string]bool) []ctrl.Request {
	all := make([]ctrl.Request, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return all
}
