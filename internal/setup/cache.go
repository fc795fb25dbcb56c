package setup

import (
	"fmt"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

// cacheOptions limits the cache to what an import reads; the API server does not even send the rest: in the namespaces of the scope CAPI
// clusters, Rancher clusters that name one, and Secrets of CAPI clusters, of which only metadata is watched; of kinds without a namespace
// what belongs to these namespaces by a label; and from all namespaces the registration tokens that Rancher makes, and the Lease of Turtles where that runs.
// Of what comes, transforms keep what is read.
func cacheOptions(scope shard.Scope, turtlesNamespaces []string, syncPeriod time.Duration) cache.Options {
	owned := having(archelonv1.OwnedLabel)
	inScope, _ := scope.Labelled(archelonv1.OwnerNamespaceLabel).Requirements()
	everywhere := map[string]cache.Config{} // not nil: the default namespaces do not apply
	turtles := map[string]cache.Config{}
	for _, namespace := range turtlesNamespaces {
		turtles[namespace] = cache.Config{}
	}
	return cache.Options{
		SyncPeriod:        &syncPeriod,
		NewInformer:       newInformer,
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: scope.Namespaces(),
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.Cluster{}:           {Transform: importer.Reduce},
			&managementv3.Cluster{}:        {Label: owned.Add(inScope...), Transform: importer.Reduce},
			&provisioningv1.Cluster{}:      {Label: owned, Transform: importer.Reduce},
			rancher.NewRegistrationToken(): {Field: named(rancher.DefaultTokenName), Namespaces: everywhere, Transform: rancher.ReduceRegistrationToken},
			&corev1.Secret{}:               {Label: having(clusterv1.ClusterNameLabel), Transform: identityOnly},
			&corev1.Namespace{}:            {Label: namespaces(scope)},
			&coordinationv1.Lease{}:        {Field: named(archelonv1.TurtlesLease), Namespaces: turtles, Transform: keepLease},
		},
	}
}

// scopedObjects are of the kinds that the cache holds of the namespaces of the scope: those with a namespace that cacheOptions does not give
// namespaces of their own. An instance works in a namespace when it may list and watch all of them there.
func scopedObjects() []client.Object {
	return []client.Object{&clusterv1.Cluster{}, &provisioningv1.Cluster{}, metadataOf("Secret")}
}

// scopedResources returns the resources of these kinds, in their order.
func scopedResources() ([]schema.GroupResource, error) {
	s, err := scheme.New()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	var resources []schema.GroupResource
	for _, object := range scopedObjects() {
		kind, err := apiutil.GVKForObject(object, s)
		if err != nil {
			return nil, fmt.Errorf("naming the kind of %T: %w", object, err)
		}
		mapping, err := scheme.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, fmt.Errorf("naming the resource of %s: %w", kind, err)
		}
		resources = append(resources, mapping.Resource.GroupResource())
	}
	return resources, nil
}

// namespaces selects the Namespaces of the scope. Unless they are named, those without the import label are left out: it is all that is read of
// them, and Rancher has a Namespace for each of its clusters.
func namespaces(scope shard.Scope) labels.Selector {
	if len(scope.Included()) > 0 {
		return scope.NamespaceObjects()
	}
	inScope, _ := scope.NamespaceObjects().Requirements()
	return having(archelonv1.ImportLabel).Add(inScope...)
}

// besideCacheOptions is for a second cache. A cache has one selector for a kind: the manager's selects kubeconfig Secrets and the Lease of
// Turtles, this one the Secrets of Rancher's registration tokens and the RoleBindings of isolated instances, wherever they are, and the Leases of
// instances in the coordination namespace: in others tenants can make them up. It has the Namespaces of the scope, too, that say who is to import what
// is in them, with the import label or without; and the display names of all v3 Clusters, where the manager's has all there is to know of those that belong
// to the scope.
func besideCacheOptions(scope shard.Scope, coordination string, syncPeriod time.Duration) cache.Options {
	inScope, _ := scope.NamespaceObjects().Requirements()
	return cache.Options{
		SyncPeriod:       &syncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:        {Field: named(rancher.DefaultTokenSecretName), Transform: identityOnly},
			&coordinationv1.Lease{}: {Label: having(archelonv1.InstanceLabel), Namespaces: map[string]cache.Config{coordination: {}}, Transform: keepLease},
			&rbacv1.RoleBinding{}:   {Field: named(archelonv1.IsolatedRoleBinding)},
			&corev1.Namespace{}:     {Label: having(archelonv1.ManagedByLabel).Add(inScope...)},
			&rancher.NamedCluster{}: {Transform: rancher.TrimNamedCluster},
		},
	}
}

// besideScheme knows Kubernetes' own kinds and, instead of Rancher's type for v3 Clusters, one that holds no more than
// their names.
func besideScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("building the scheme of the second cache: %w", err)
	}
	rancher.AddNamedClusters(s)
	return s, nil
}

// clientOptions has registration tokens, which are unstructured, read from the cache as well. Of Secrets the cache
// holds metadata only; their data is read through the manager's API reader, at each use.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{Unstructured: true}}
}

func having(label string) labels.Selector {
	// The key is a constant; only a malformed one is an error.
	requirement, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(err)
	}
	return labels.NewSelector().Add(*requirement)
}

func named(name string) fields.Selector {
	return fields.OneTermEqualSelector("metadata.name", name)
}
