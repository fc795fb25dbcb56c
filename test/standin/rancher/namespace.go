package rancher

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func (r *reactor) setupNamespaces(_ context.Context, mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("backing-namespace").
		For(&corev1.Namespace{}, builder.OnlyMetadata, builder.WithPredicates(systemNamespaces())).
		Complete(r.reconciler("Namespace", func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
			return r.finishNamespace(ctx, r.emptier, "management", key.Name)
		}))
}

// systemNamespaces selects the backing namespaces of v3 Clusters.
func systemNamespaces() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetAnnotations()[annotationSystemNamespace] == "true"
	})
}

// finishNamespace plays the namespace controller for a deleted namespace, if nobody else does.
// It returns how long to wait before it is called again, zero when the namespace is gone.
func (s *Standin) finishNamespace(ctx context.Context, e *emptier, server, name string) (time.Duration, error) {
	owner := "namespace/" + server + "/" + name
	ns, err := e.client.Resource(namespaceGVR).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.delays.forget(owner, "")
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if ns.GetDeletionTimestamp().IsZero() {
		return 0, nil
	}
	if wait := s.delays.remaining(owner, "end", s.opts.Timings.NamespaceController); wait > 0 {
		return wait, nil
	}
	// A real namespace controller reports its progress in conditions.
	if conditions, _, _ := unstructured.NestedSlice(ns.Object, "status", "conditions"); len(conditions) > 0 {
		return s.opts.Timings.Poll, nil
	}
	empty, err := e.empty(ctx, name)
	if err != nil || !empty {
		return s.opts.Timings.Poll, err
	}
	return s.opts.Timings.Poll, e.finalize(ctx, ns)
}

var namespaceGVR = corev1.SchemeGroupVersion.WithResource("namespaces")

// emptier deletes what is in a namespace, as far as it consists of kinds that Rancher, its
// agent or an importer puts there.
type emptier struct {
	client    dynamic.Interface
	resources []schema.GroupVersionResource
}

func newEmptier(c dynamic.Interface, management bool) *emptier {
	e := &emptier{client: c, resources: []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	}}
	if management {
		e.resources = append([]schema.GroupVersionResource{
			{Group: tokenGVK.Group, Version: tokenGVK.Version, Resource: "clusterregistrationtokens"},
			{Group: bindingGVK.Group, Version: bindingGVK.Version, Resource: "clusterroletemplatebindings"},
		}, e.resources...)
	}
	return e
}

// empty deletes the content of the namespace and says whether nothing is left.
func (e *emptier) empty(ctx context.Context, namespace string) (bool, error) {
	empty := true
	for _, resource := range e.resources {
		items := e.client.Resource(resource).Namespace(namespace)
		left, err := items.List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue // not served here
		}
		if err != nil {
			return false, fmt.Errorf("listing %s in %s: %w", resource.Resource, namespace, err)
		}
		if len(left.Items) == 0 {
			continue
		}
		empty = false
		if err := items.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return false, fmt.Errorf("deleting %s in %s: %w", resource.Resource, namespace, err)
		}
	}
	return empty, nil
}

// finalize takes the API server's own finalizer off an empty namespace, which ends it.
func (e *emptier) finalize(ctx context.Context, ns *unstructured.Unstructured) error {
	ns = ns.DeepCopy()
	unstructured.RemoveNestedField(ns.Object, "spec", "finalizers")
	_, err := e.client.Resource(namespaceGVR).Update(ctx, ns, metav1.UpdateOptions{}, "finalize")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("finalizing namespace %s: %w", ns.GetName(), err)
	}
	return nil
}
