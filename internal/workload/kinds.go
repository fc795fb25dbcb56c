package workload

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// newMapper returns the REST mapping of the kinds that are applied or read, so that no client needs the discovery of a
// workload cluster for them.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for gv, kinds := range map[schema.GroupVersion]map[string]meta.RESTScope{
		corev1.SchemeGroupVersion: {
			"Namespace": meta.RESTScopeRoot, "ServiceAccount": meta.RESTScopeNamespace,
			"Secret": meta.RESTScopeNamespace, "Service": meta.RESTScopeNamespace,
			"Pod": meta.RESTScopeNamespace, "Node": meta.RESTScopeRoot,
		},
		rbacv1.SchemeGroupVersion: {"ClusterRole": meta.RESTScopeRoot, "ClusterRoleBinding": meta.RESTScopeRoot},
		appsv1.SchemeGroupVersion: {
			"Deployment": meta.RESTScopeNamespace, "ReplicaSet": meta.RESTScopeNamespace, "DaemonSet": meta.RESTScopeNamespace,
		},
		policyv1.SchemeGroupVersion: {"PodDisruptionBudget": meta.RESTScopeNamespace},
		batchv1.SchemeGroupVersion:  {"Job": meta.RESTScopeNamespace},
	} {
		for kind, scope := range kinds {
			mapper.Add(gv.WithKind(kind), scope)
		}
	}
	return mapper
}

// knowing returns a client that knows the kinds of the objects: usually that of all requests, else one for this once
// with what the workload cluster says of the kinds that newMapper lacks. It is asked for each of their group versions,
// before anything is applied. What it says counts for itself alone. It chooses the path and the scope of such a kind,
// and gains nothing by a wrong one: the object is sent to it anyway.
func (c *Client) knowing(ctx context.Context, objects []*unstructured.Unstructured) (client.Client, error) {
	found := meta.NewDefaultRESTMapper(nil)
	asked := map[schema.GroupVersion][]metav1.APIResource{}
	for _, object := range objects {
		gvk := object.GroupVersionKind()
		if _, err := c.api.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
			continue
		}
		gv := gvk.GroupVersion()
		if _, ok := asked[gv]; !ok {
			resources, err := c.resources(ctx, gv)
			if err != nil {
				return nil, err
			}
			asked[gv] = resources
		}
		// The name of a subresource, which has the kind as well, is none of a resource.
		i := slices.IndexFunc(asked[gv], func(r metav1.APIResource) bool {
			return r.Kind == gvk.Kind && len(validation.IsDNS1035Label(r.Name)) == 0
		})
		if i < 0 {
			return nil, problem.Fail(connection.RejectedReason,
				"The workload cluster does not know kind %s in %s. Check its Kubernetes version", gvk.Kind, gv)
		}
		var scope meta.RESTScope = meta.RESTScopeNamespace
		switch {
		case !asked[gv][i].Namespaced:
			scope = meta.RESTScopeRoot
			object.SetNamespace("")
		case object.GetNamespace() == "":
			return nil, problem.Fail(connection.RejectedReason,
				"%s names no namespace, and must be in one. Nothing was applied", describe(object))
		}
		found.AddSpecific(gvk, gv.WithResource(asked[gv][i].Name), gv.WithResource(asked[gv][i].Name), scope)
	}
	if len(asked) == 0 {
		return c.api, nil
	}
	return c.connect(meta.MultiRESTMapper{c.api.RESTMapper(), found})
}

// resources returns the resources that the workload cluster serves in a group version.
func (c *Client) resources(ctx context.Context, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	list := &metav1.APIResourceList{}
	err := c.call(ctx, "asking for the kinds in "+gv.String(), func(ctx context.Context) error {
		served, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.http)
		if err != nil {
			return err
		}
		return served.RESTClient().Get().AbsPath(path).Do(ctx).Into(list)
	})
	return list.APIResources, err
}
