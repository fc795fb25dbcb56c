package remote

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// Indexes of sources.
const (
	// secretIndex is the Secrets that one names, that with its kubeconfig among them; credentialsIndex that one alone.
	secretIndex      = "hostclaims.metal3.io/secret"
	credentialsIndex = "hostclaims.metal3.io/credentials"
	// clusterIndex is its CAPI Cluster.
	clusterIndex = "hostclaims.metal3.io/cluster"
)

func indexes() []reconcile.Index {
	return []reconcile.Index{
		{Object: &metal3v1.HostClaim{}, Name: secretIndex, Keys: secretKeys},
		{Object: &metal3v1.HostClaim{}, Name: credentialsIndex, Keys: credentialsKeys},
		{Object: &metal3v1.HostClaim{}, Name: clusterIndex, Keys: hostclaim.ClusterKeys},
	}
}

func secretKeys(object client.Object) []string {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok || !handled(claim) {
		return nil
	}
	keys := hostclaim.SecretKeys(claim)
	for _, key := range credentialsKeys(claim) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
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

func (r *Reconciler) watches() []reconcile.Watch {
	changed := predicate.ResourceVersionChangedPredicate{}
	watches := []reconcile.Watch{
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: reconcile.Itself, Admits: changed},
		{Object: secretMetadata(), Own: true, Requests: r.claimsBy(secretIndex), Admits: changed},
		{Object: namespaceMetadata(), Own: true, Requests: r.claimsThatGo, Admits: hostclaim.DeletionBegan()},
	}
	if r.NoClusters {
		return watches
	}
	return append(watches, reconcile.Watch{
		Object: &clusterv1.Cluster{}, Requests: r.claimsBy(clusterIndex), Admits: hostclaim.PausedChanged(),
	})
}

// claimsThatGo returns the sources of a Namespace that is being deleted which are deleted themselves: none of them is
// held by its own pause any more. Those that are not deleted yet are woken by that.
func (r *Reconciler) claimsThatGo(ctx context.Context, namespace client.Object) []ctrl.Request {
	return hostclaim.Going(ctx, []client.Reader{r.Read.Claims}, namespace.GetName())
}

// claimsBy returns the sources that have an object in an index.
func (r *Reconciler) claimsBy(index string) func(context.Context, client.Object) []ctrl.Request {
	return func(ctx context.Context, object client.Object) []ctrl.Request {
		return hostclaim.ClaimsBy(ctx, []client.Reader{r.Read.Claims}, index, client.ObjectKeyFromObject(object).String())
	}
}
