package setup

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agentmanifest"
	"github.com/archelon-io/archelon/internal/controller"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

// shared are kinds that several controllers read, and so are narrowed by none of them. Of Secrets, kubeconfigs are kept
// and the manifests of agents (newInformer), and of these metadata: their data is read through the manager's API
// reader, at each use.
func shared(scope shard.Scope, opts *options.Options) (map[client.Object]cache.ByObject, error) {
	rules, err := CachedBy(opts)
	selecting := opts.NamespaceSelector != ""
	labelsRead := controller.KeepLabels(archelonv1.ImportLabel)
	if selecting {
		labelsRead = controller.KeepAllLabels
	}
	return map[client.Object]cache.ByObject{
		&clusterv1.Cluster{}: {Transform: rules.Reduce},
		&corev1.Secret{}:     {Label: controller.Having(clusterv1.ClusterNameLabel), Transform: agentmanifest.KeepInput(keepKubeconfig)},
		&corev1.Namespace{}:  {Label: namespaces(scope, selecting), Transform: labelsRead},
	}, err
}

// CachedBy are those of the rules of the import that say what caches keep.
func CachedBy(opts *options.Options) (importer.Rules, error) {
	selector, err := opts.Selector()
	return importer.Rules{
		Selector: selector, UnpropagatedLabels: opts.UnpropagatedLabels, PropagatedAnnotations: opts.PropagatedAnnotations,
	}, err
}

// cacheOptions limits the shared cache to what the controllers read; the API server does not even send the rest. It is
// an error if two of them narrow one kind: one has to have it in its own cache.
func cacheOptions(controllers []controller.Controller, scope shard.Scope, opts *options.Options) (cache.Options, error) {
	limits := scoped(scope, opts.SyncPeriod)
	limits.NewInformer = newInformer
	common, err := shared(scope, opts)
	if err != nil {
		return limits, err
	}
	return narrowed(limits, common, controllers, scope)
}

// narrowed limits a cache to what is shared and to what the controllers read.
func narrowed(
	limits cache.Options, common map[client.Object]cache.ByObject, controllers []controller.Controller, scope shard.Scope,
) (cache.Options, error) {
	s, err := scheme.New()
	if err != nil {
		return cache.Options{}, fmt.Errorf("building the scheme: %w", err)
	}
	by := map[schema.GroupVersionKind]string{}
	narrow := func(who string, object client.Object, how cache.ByObject) error {
		kind, err := apiutil.GVKForObject(object, s)
		if err != nil {
			return fmt.Errorf("naming the kind of %T: %w", object, err)
		}
		if other, ok := by[kind]; ok {
			return fmt.Errorf("%s and %s both narrow %s: let one have it in its own cache", other, who, kind)
		}
		by[kind] = who
		limits.ByObject[object] = how
		return nil
	}
	var errs []error
	for object, how := range common {
		errs = append(errs, narrow("internal/setup", object, how))
	}
	for _, c := range controllers {
		for _, watch := range c.Watches(scope) {
			if !watch.Own && !reflect.ValueOf(watch.By).IsZero() {
				errs = append(errs, narrow(c.Name, watch.Object, watch.By))
			}
		}
	}
	return limits, errors.Join(errs...)
}

// ownOptions limits a controller's own cache to what it has in there.
func ownOptions(c controller.Controller, scope shard.Scope, syncPeriod time.Duration) cache.Options {
	limits := scoped(scope, syncPeriod)
	for _, watch := range c.Watches(scope) {
		if watch.Own {
			limits.ByObject[watch.Object] = watch.By
		}
	}
	return limits
}

// scoped limits a cache to the namespaces of a scope, where a kind does not say otherwise.
func scoped(scope shard.Scope, syncPeriod time.Duration) cache.Options {
	return cache.Options{
		SyncPeriod:        &syncPeriod,
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: scope.Namespaces(),
		ByObject:          map[client.Object]cache.ByObject{},
	}
}

// scopedResources returns what the controllers receive from the namespaces of the scope, in their order. An instance
// works in a namespace when it may list and watch all of them there.
func scopedResources(controllers []controller.Controller) ([]schema.GroupResource, error) {
	var resources []schema.GroupResource
	seen := map[schema.GroupResource]bool{}
	for _, c := range controllers {
		for _, watch := range c.Watches(shard.Scope{}) {
			mapping, err := mappingOf(c, watch.Object)
			if err != nil {
				return nil, err
			}
			resource := mapping.Resource.GroupResource()
			if mapping.Scope.Name() != meta.RESTScopeNameNamespace || watch.By.Namespaces != nil || seen[resource] {
				continue
			}
			seen[resource] = true
			resources = append(resources, resource)
		}
	}
	return resources, nil
}

// mappingOf returns the resource of an object that a controller receives.
func mappingOf(c controller.Controller, object client.Object) (*meta.RESTMapping, error) {
	schemes := []func() (*runtime.Scheme, error){scheme.New}
	if c.Scheme != nil {
		schemes = append(schemes, c.Scheme)
	}
	var errs []error
	for _, build := range schemes {
		s, err := build()
		if err != nil {
			return nil, err
		}
		kind, err := apiutil.GVKForObject(object, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return scheme.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
	}
	return nil, fmt.Errorf("naming the resource of %T: %w", object, errors.Join(errs...))
}

// namespaces selects the Namespaces of the scope. Unless they are named, or the instance selects among them by
// their labels, those without the import label are left out: it is all that is read of them, and Rancher has a
// Namespace for each of its clusters.
func namespaces(scope shard.Scope, selecting bool) labels.Selector {
	if selecting || len(scope.Included()) > 0 {
		return scope.NamespaceObjects()
	}
	inScope, _ := scope.NamespaceObjects().Requirements()
	return controller.Having(archelonv1.ImportLabel).Add(inScope...)
}

// clientOptions has registration tokens, which are unstructured, read from the cache as well.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{Unstructured: true}}
}
