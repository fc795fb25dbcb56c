package remote

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Indexes of sources.
const (
	// secretIndex is the Secrets that one names, that with its kubeconfig among them; credentialsIndex that one alone.
	secretIndex      = "hostclaims.metal3.io/secret"
	credentialsIndex = "hostclaims.metal3.io/credentials"
	// clusterIndex is its CAPI Cluster.
	clusterIndex = "hostclaims.metal3.io/cluster"
)

func indexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{secretIndex: secretKeys, credentialsIndex: credentialsKeys, clusterIndex: clusterKeys}
}

func secretKeys(object client.Object) []string {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || !handled(claim) {
		return nil
	}
	names := map[string]bool{}
	for _, key := range credentialsKeys(claim) {
		names[key] = true
	}
	for _, ref := range hostclaim.Sources(claim) {
		if hostclaim.MayRead(claim, ref) {
			names[claim.Namespace+"/"+ref.Name] = true
		}
	}
	keys := make([]string, 0, len(names))
	for key := range names {
		keys = append(keys, key)
	}
	return keys
}

func credentialsKeys(object client.Object) []string {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || !handled(claim) {
		return nil
	}
	if credentials, problem := credentialsOf(claim); problem == nil {
		return []string{credentials.Secret.String()}
	}
	return nil
}

func clusterKeys(object client.Object) []string {
	if name := object.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{object.GetNamespace() + "/" + name}
	}
	return nil
}

// watch is what wakes a controller.
type watch struct {
	object client.Object
	// shared is whether the object comes from the cache that all controllers share.
	shared   bool
	requests func(context.Context, client.Object) []reconcile.Request
	admits   predicate.Predicate
}

func (r *Reconciler) watches() []watch {
	changed := predicate.ResourceVersionChangedPredicate{}
	return []watch{
		{&metal3v1.HostClaim{}, false, itself, changed},
		{secretMetadata(), false, r.claimsBy(secretIndex), changed},
		{&clusterv1.Cluster{}, true, r.claimsBy(clusterIndex), pausedChanged()},
	}
}

func itself(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}

// claimsBy returns the sources that have an object in an index.
func (r *Reconciler) claimsBy(index string) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		list := &metal3v1.HostClaimList{}
		key := client.MatchingFields{index: client.ObjectKeyFromObject(object).String()}
		if err := r.Read.Claims.List(ctx, list, key, client.UnsafeDisableDeepCopy); err != nil {
			// A read from a cache fails only when the cache stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing HostClaims failed")
			return nil
		}
		requests := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{
				Namespace: list.Items[i].Namespace, Name: list.Items[i].Name,
			}}
		}
		return requests
	}
}

// pausedChanged admits Clusters that are paused or go on.
func pausedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
	}}
}
