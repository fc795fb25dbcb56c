package baremetal

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
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
	// pendingIndex of claims has all that are about to take a host, under one key.
	pendingIndex = "hostclaims.metal3.io/pending"
	// secretIndex of claims are the Secrets that one names, clusterIndex its Cluster.
	secretIndex  = "hostclaims.metal3.io/secret"
	clusterIndex = "hostclaims.metal3.io/cluster"
)

func hostIndexes() []reconcile.Index {
	return []reconcile.Index{
		{Object: &bmov1.BareMetalHost{}, Name: consumerIndex, Keys: consumerKeys},
		{Object: &bmov1.BareMetalHost{}, Name: poolIndex, Keys: poolKeys},
	}
}

func claimIndexes() []reconcile.Index {
	var indexes []reconcile.Index
	for name, keys := range map[string]client.IndexerFunc{
		namedIndex: namedKeys, waitingIndex: waitingKeys, pendingIndex: pendingKeys, secretIndex: secretKeys,
		clusterIndex: hostclaim.ClusterKeys,
	} {
		indexes = append(indexes, reconcile.Index{Object: &metal3v1.HostClaim{}, Name: name, Keys: keys})
	}
	return indexes
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
	if !ok || hostOf(claim) != nil || claim.DeletionTimestamp != nil || hostclaim.LostForGood(claim) ||
		hostclaim.ServedByMetal3(claim) {
		return nil
	}
	return []string{hostclaim.PoolOf(claim.Spec.HostSelector)}
}

// isPending is the key of pendingIndex.
const isPending = "true"

func pendingKeys(object client.Object) []string {
	if claim, ok := object.(*metal3v1.HostClaim); ok && claim.Status.PendingHost != nil && claim.DeletionTimestamp == nil {
		return []string{isPending}
	}
	return nil
}

// reserved returns the hosts that claims are about to take.
func (r *Reconciler) reserved(ctx context.Context) map[types.NamespacedName]bool {
	hosts := map[types.NamespacedName]bool{}
	note := func(claim *metal3v1.HostClaim) { hosts[*hostOf(claim)] = true }
	r.eachClaim(ctx, note, client.MatchingFields{pendingIndex: isPending})
	return hosts
}

// gaveUp admits claims that do not take the host any more that they were about to take.
func gaveUp() predicate.Predicate {
	pending := func(object client.Object) *metal3v1.ObjectReference {
		if claim, ok := object.(*metal3v1.HostClaim); ok {
			return claim.Status.PendingHost
		}
		return nil
	}
	never := func(event.CreateEvent) bool { return false }
	return predicate.Funcs{
		CreateFunc: never, DeleteFunc: func(e event.DeleteEvent) bool { return pending(e.Object) != nil },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := pending(e.ObjectOld), pending(e.ObjectNew)
			after, ok := e.ObjectNew.(*metal3v1.HostClaim)
			taken := ok && was != nil && after.Status.BareMetalHost != nil && *after.Status.BareMetalHost == *was
			return was != nil && !taken && (is == nil || *is != *was)
		},
	}
}

// claimsOfReserved returns the claims that wait for the host which a claim is about to take.
func (r *Reconciler) claimsOfReserved(ctx context.Context, object client.Object) []ctrl.Request {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || claim.Status.PendingHost == nil {
		return nil
	}
	host := &bmov1.BareMetalHost{}
	if err := r.Read.Objects.Get(ctx, *hostOf(claim), host); err != nil {
		return nil // It is gone, or the cache stops.
	}
	return r.claimsInWait(ctx, host)
}

func secretKeys(object client.Object) []string {
	if claim, ok := object.(*metal3v1.HostClaim); ok {
		return hostclaim.SecretKeys(claim)
	}
	return nil
}

// claimsOfHost returns the claim that a host names, and those that name the host.
func (r *Reconciler) claimsOfHost(ctx context.Context, object client.Object) []ctrl.Request {
	host, ok := object.(*bmov1.BareMetalHost)
	if !ok {
		return nil
	}
	var requests []ctrl.Request
	if key, _, ok := consumerOf(host); ok {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return append(requests, r.claimsBy(ctx, namedIndex, keyOf(host).String())...)
}

// offers admits what claims that wait for a host have to know of one. They may be many.
func offers() predicate.Predicate {
	free := func(object client.Object) bool {
		host, ok := object.(*bmov1.BareMetalHost)
		return ok && hostclaim.Free(host)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return free(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return free(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok := e.ObjectOld.(*bmov1.BareMetalHost)
			is, ok2 := e.ObjectNew.(*bmov1.BareMetalHost)
			return ok && ok2 && !hostclaim.SameOffer(was, is)
		},
	}
}

// claimsOfOffer returns the claims that wait for such a host, if it is free.
func (r *Reconciler) claimsOfOffer(ctx context.Context, object client.Object) []ctrl.Request {
	if host, ok := object.(*bmov1.BareMetalHost); ok {
		return r.claimsInWait(ctx, host)
	}
	return nil
}

// claimsInWait returns the claims that wait for such a host, if it is free. It runs in the handler of an event, for all
// of them: what costs more than a look at a label is for the workers.
func (r *Reconciler) claimsInWait(ctx context.Context, host *bmov1.BareMetalHost) []ctrl.Request {
	var requests []ctrl.Request
	for _, pool := range hostclaim.Pools(host) {
		r.eachClaim(ctx, func(claim *metal3v1.HostClaim) {
			if hostclaim.Wants(claim.Spec.HostSelector, host) {
				requests = append(requests, reconcile.Itself(ctx, claim)...)
			}
		}, client.MatchingFields{waitingIndex: pool})
	}
	return requests
}

// claimsOfSecret returns the claims that name a Secret, and the claim of the host that it may be a copy for.
func (r *Reconciler) claimsOfSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	key := client.ObjectKeyFromObject(secret)
	requests := r.claimsBy(ctx, secretIndex, key.String())
	if host, ok := hostOfCopy(key); ok {
		requests = append(requests, r.consumer(ctx, host)...)
	}
	return requests
}

// claimsOfHardware returns the claim of the host that something is about.
func (r *Reconciler) claimsOfHardware(ctx context.Context, object client.Object) []ctrl.Request {
	return r.consumer(ctx, client.ObjectKeyFromObject(object))
}

// claimsOfCluster returns the claims of a Cluster.
func (r *Reconciler) claimsOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return r.claimsBy(ctx, clusterIndex, client.ObjectKeyFromObject(cluster).String())
}

func (r *Reconciler) claimsBy(ctx context.Context, index, key string) []ctrl.Request {
	return hostclaim.ClaimsBy(ctx, r.Read.Claims, index, key)
}

// consumer returns the claim of a host.
func (r *Reconciler) consumer(ctx context.Context, name types.NamespacedName) []ctrl.Request {
	host := &bmov1.BareMetalHost{}
	if err := r.Read.Objects.Get(ctx, name, host); err != nil {
		return nil // The event of the host wakes its claim.
	}
	if key, _, ok := consumerOf(host); ok {
		return []ctrl.Request{{NamespacedName: key}}
	}
	return nil
}

// claimsOfPolicy returns all claims that wait, because a policy may let any of them have a host, and the claims that
// have a host of its namespace, because it may not allow them any more.
func (r *Reconciler) claimsOfPolicy(ctx context.Context, policy client.Object) []ctrl.Request {
	requests := r.chosen(ctx, func(claim *metal3v1.HostClaim) bool {
		in := claim.Spec.HostSelector.InNamespace
		return len(waitingKeys(claim)) > 0 && (in == "" || in == policy.GetNamespace())
	})
	hosts, err := r.Read.hosts(ctx, client.InNamespace(policy.GetNamespace()))
	if err != nil {
		return requests // A read from a cache fails only when the cache stops.
	}
	for _, host := range hosts {
		if key, _, ok := consumerOf(host); ok {
			requests = append(requests, ctrl.Request{NamespacedName: key})
		}
	}
	return requests
}

// claimsOfNamespace returns the claims of a Namespace that wait, because by its labels they may get a host, and those
// that have one, because by its labels they may not be allowed any more.
func (r *Reconciler) claimsOfNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
	return r.chosen(ctx, func(claim *metal3v1.HostClaim) bool {
		return len(waitingKeys(claim)) > 0 || claim.Status.BareMetalHost != nil
	}, client.InNamespace(namespace.GetName()))
}

// claimsThatGo returns the claims of a Namespace that is being deleted which are deleted themselves: none of them is
// held by its own pause any more. Those that are not deleted yet are woken by that.
func (r *Reconciler) claimsThatGo(ctx context.Context, namespace client.Object) []ctrl.Request {
	return hostclaim.Going(ctx, r.Read.Claims, namespace.GetName())
}

func (r *Reconciler) chosen(
	ctx context.Context, concerned func(*metal3v1.HostClaim) bool, options ...client.ListOption,
) []ctrl.Request {
	var requests []ctrl.Request
	r.eachClaim(ctx, func(claim *metal3v1.HostClaim) {
		if concerned(claim) {
			requests = append(requests, reconcile.Itself(ctx, claim)...)
		}
	}, options...)
	return requests
}

// eachClaim calls a function for the claims of the caches. They must not be changed.
func (r *Reconciler) eachClaim(ctx context.Context, call func(*metal3v1.HostClaim), options ...client.ListOption) {
	for _, claims := range r.Read.Claims {
		hostclaim.Each(ctx, claims, call, options...)
	}
}
