package rancher

import (
	"fmt"
	"maps"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	"github.com/rancher/wrangler/v3/pkg/crd"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of Rancher that the stand-in serves.
var (
	clusterGVK      = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"}
	tokenGVK        = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRegistrationToken"}
	settingGVK      = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Setting"}
	provisioningGVK = schema.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"}
)

// CRDs returns the CustomResourceDefinitions that Rancher installs for the kinds an importer
// meets: management.cattle.io/v3 Cluster, ClusterRegistrationToken, Setting, ClusterRoleTemplateBinding and
// RoleTemplate, and provisioning.cattle.io/v1 Cluster. They come out of the same generator that Rancher runs at
// its start. With statusSubresource the v3 Cluster has a status subresource, as from Rancher
// 2.15 on; without it, status is an ordinary field that any full update overwrites.
func CRDs(statusSubresource bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	// No schema: the generator then keeps unknown fields below spec and status, and prunes
	// every other top-level key.
	cluster := crd.NonNamespacedType("Cluster.management.cattle.io/v3")
	if statusSubresource {
		cluster = cluster.WithStatus()
	}
	provisioning := crd.NamespacedType("Cluster.provisioning.cattle.io/v1").
		WithSchemaFromStruct(provisioningv1.Cluster{}).
		WithStatus().
		WithCategories("provisioning").
		WithColumn("Ready", ".status.ready").
		WithColumn("Kubeconfig", ".status.clientSecretName")
	provisioning.Labels = map[string]string{"auth.cattle.io/cluster-indexed": "true"}

	var out []*apiextensionsv1.CustomResourceDefinition
	for _, definition := range []crd.CRD{
		cluster,
		crd.NamespacedType("ClusterRegistrationToken.management.cattle.io/v3").
			WithSchemaFromStruct(managementv3.ClusterRegistrationToken{}),
		crd.NonNamespacedType("Setting.management.cattle.io/v3").
			WithSchemaFromStruct(managementv3.Setting{}),
		provisioning,
		crd.NamespacedType(bindingGVK.Kind + ".management.cattle.io/v3").WithSchemaFromStruct(managementv3.ClusterRoleTemplateBinding{}),
		crd.NonNamespacedType(roleTemplateGVK.Kind + ".management.cattle.io/v3").WithSchemaFromStruct(managementv3.RoleTemplate{}),
	} {
		converted, err := typedCRD(definition)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	addTokenFields(out[1])
	return out, nil
}

func typedCRD(definition crd.CRD) (*apiextensionsv1.CustomResourceDefinition, error) {
	name := definition.Name()
	generated, err := definition.ToCustomResourceDefinition()
	if err != nil {
		return nil, fmt.Errorf("generating CRD %s: %w", name, err)
	}
	u, ok := generated.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("generating CRD %s: got %T", name, generated)
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("converting CRD %s: %w", name, err)
	}
	return out, nil
}

// addTokenFields adds the fields that tokens kept in Secrets brought and that the published
// Go type does not have yet. Without them the API server would prune tokenSecretName.
func addTokenFields(definition *apiextensionsv1.CustomResourceDefinition) {
	properties := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	text := apiextensionsv1.JSONSchemaProps{Type: "string", Nullable: true}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Nullable: true}
	maps.Copy(properties["status"].Properties, map[string]apiextensionsv1.JSONSchemaProps{
		"tokenSecretName":      text,
		"expiresAt":            text,
		"gracePeriodExpiresAt": text,
	})
	for _, field := range []string{"ttl", "gracePeriod"} {
		properties["spec"].Properties[field] = number
	}
}
