package hostclaim

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// SecretKeys are the Secrets that a claim names, for an index.
func SecretKeys(claim *metal3v1.HostClaim) []string {
	var keys []string
	for _, ref := range Sources(claim) {
		if key := claim.Namespace + "/" + ref.Name; MayRead(claim, ref) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ClusterKeys is the Cluster of a claim, for an index.
func ClusterKeys(claim client.Object) []string {
	if name := claim.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{claim.GetNamespace() + "/" + name}
	}
	return nil
}

// Each calls a function for claims of a cache. They must not be changed.
func Each(ctx context.Context, claims client.Reader, call func(*metal3v1.HostClaim), options ...client.ListOption) {
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

// ClaimsBy returns the requests of the claims of caches that have a key in an index.
func ClaimsBy(ctx context.Context, caches []client.Reader, index, key string) []ctrl.Request {
	var requests []ctrl.Request
	for _, claims := range caches {
		Each(ctx, claims, func(claim *metal3v1.HostClaim) {
			requests = append(requests, reconcile.Itself(ctx, claim)...)
		}, client.MatchingFields{index: key})
	}
	return requests
}

// Going returns the requests of the claims of caches that are being deleted in a namespace.
func Going(ctx context.Context, caches []client.Reader, namespace string) []ctrl.Request {
	var requests []ctrl.Request
	for _, claims := range caches {
		Each(ctx, claims, func(claim *metal3v1.HostClaim) {
			if claim.DeletionTimestamp != nil {
				requests = append(requests, reconcile.Itself(ctx, claim)...)
			}
		}, client.InNamespace(namespace))
	}
	return requests
}
