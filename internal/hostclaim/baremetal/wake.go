package baremetal

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Indexes of hosts and of claims.
const (
	// consumerIndex of hosts is the claim that one names.
	consumerIndex = "hostclaims.metal3.io/consumer"
	// poolIndex of hosts are the pools that a free one is in.
	poolIndex = "hostclaims.metal3.io/pool"
	// namedIndex of claims is the host that the status of one names.
	namedIndex = "hostclaims.metal3.io/named"
	// waitingIndex of claims is the pool that one without a host waits for.
	waitingIndex = "hostclaims.metal3.io/waiting"
)

// index is one of them.
type index struct {
	object client.Object
	name   string
	keys   client.IndexerFunc
}

func hostIndexes() []index {
	return []index{{&bmov1.BareMetalHost{}, consumerIndex, consumerKeys}, {&bmov1.BareMetalHost{}, poolIndex, poolKeys}}
}

func claimIndexes() []index {
	return []index{{&metal3v1.HostClaim{}, namedIndex, namedKeys}, {&metal3v1.HostClaim{}, waitingIndex, waitingKeys}}
}

func consumerKeys(object client.Object) []string {
	if host, ok := object.(*bmov1.BareMetalHost); ok {
		if key, _, ok := consumerOf(host); ok {
			return []string{key.String()}
		}
	}
	return nil
}

func poolKeys(object client.Object) []string {
	if host, ok := object.(*bmov1.BareMetalHost); ok {
		return hostclaim.Pools(host)
	}
	return nil
}

func namedKeys(object client.Object) []string {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || hostOf(claim) == nil {
		return nil
	}
	return []string{hostOf(claim).String()}
}

func waitingKeys(object client.Object) []string {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || hostOf(claim) != nil || claim.DeletionTimestamp != nil || lostForGood(claim) {
		return nil
	}
	return []string{hostclaim.PoolOf(claim.Spec.HostSelector)}
}

// claimItself returns the request of a claim.
func claimItself(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// claimsOfHost returns the claim that a host names, those that name the host, and if it is free those that wait for such
// a host.
func (r *Reconciler) claimsOfHost(ctx context.Context, object client.Object) []reconcile.Request {
	host, ok := object.(*bmov1.BareMetalHost)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	if key, _, ok := consumerOf(host); ok {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	r.eachClaim(ctx, func(claim *metal3v1.HostClaim) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
	}, client.MatchingFields{namedIndex: keyOf(host).String()})
	for _, pool := range hostclaim.Pools(host) {
		r.eachClaim(ctx, func(claim *metal3v1.HostClaim) {
			selector, err := hostclaim.SelectorOf(claim.Spec.HostSelector)
			if err == nil && selector.Matches(labels.Set(host.Labels)) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
			}
		}, client.MatchingFields{waitingIndex: pool})
	}
	return requests
}

// waitingClaims returns all claims that wait: a policy may let any of them have a host.
func (r *Reconciler) waitingClaims(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.waiting(ctx, func(claim *metal3v1.HostClaim) bool {
		in := claim.Spec.HostSelector.InNamespace
		return in == "" || in == policy.GetNamespace()
	})
}

// claimsOfNamespace returns the claims of a Namespace that wait: by its labels they may get a host.
func (r *Reconciler) claimsOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.waiting(ctx, func(*metal3v1.HostClaim) bool { return true }, client.InNamespace(namespace.GetName()))
}

func (r *Reconciler) waiting(
	ctx context.Context, concerned func(*metal3v1.HostClaim) bool, options ...client.ListOption,
) []reconcile.Request {
	var requests []reconcile.Request
	r.eachClaim(ctx, func(claim *metal3v1.HostClaim) {
		if len(waitingKeys(claim)) > 0 && concerned(claim) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{
				Namespace: claim.Namespace, Name: claim.Name,
			}})
		}
	}, options...)
	return requests
}

// eachClaim calls a function for the claims of the caches. They must not be changed.
func (r *Reconciler) eachClaim(ctx context.Context, call func(*metal3v1.HostClaim), options ...client.ListOption) {
	for _, claims := range r.Read.Claims {
		list := &metal3v1.HostClaimList{}
		if err := claims.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
			// A read from a cache fails only when the cache stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing HostClaims failed")
			return
		}
		for i := range list.Items {
			call(&list.Items[i])
		}
	}
}
