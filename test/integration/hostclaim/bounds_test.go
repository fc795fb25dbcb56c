package hostclaim_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// many returns a map, or a list, of n entries of a length.
func many(n, length int) map[string]any {
	all := map[string]any{}
	for i := range n {
		all[fmt.Sprintf("k%d", i)] = strings.Repeat("v", length)
	}
	return all
}

func values(n, length int) []any {
	return slices.Collect(maps.Values(many(n, length)))
}

// unbounded returns the CRD of HostClaims as it was before anything in it had a bound.
func unbounded(ours *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd := ours.DeepCopy()
	var loosen func(apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps
	loosen = func(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		schema.MaxLength, schema.MaxItems, schema.MaxProperties, schema.XValidations = nil, nil, nil, nil
		for name, property := range schema.Properties {
			schema.Properties[name] = loosen(property)
		}
		if schema.Items != nil {
			*schema.Items.Schema = loosen(*schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil {
			*schema.AdditionalProperties.Schema = loosen(*schema.AdditionalProperties.Schema)
		}
		return schema
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		root.Properties[part] = loosen(root.Properties[part])
	}
	return crd
}

var _ = Describe("Bounds of HostClaims", Ordered, func() {
	const infra, team = "infra", "team-a"
	const selecting = "online: true\nhostSelector: {matchLabels: {infra-kind: medium}}\n"
	var w *world

	// put sets a field, named by its path, of what a tenant writes.
	put := func(object map[string]any, path string, value any) {
		GinkgoHelper()
		Expect(unstructured.SetNestedField(object, value, strings.Split(path, ".")...)).To(Succeed())
	}

	claimWith := func(name, path string, value any) *unstructured.Unstructured {
		GinkgoHelper()
		spec := map[string]any{}
		Expect(yaml.Unmarshal([]byte(selecting), &spec)).To(Succeed())
		claim := unstructuredClaim(team, name)
		claim.Object["spec"] = spec
		put(claim.Object, path, value)
		return claim
	}

	// oversize are what somebody may write to fill the memory of those who watch claims.
	long := strings.Repeat("x", 5000)
	expression := func(key string, values []any) any {
		return map[string]any{"key": key, "operator": "In", "values": values}
	}
	oversize := map[string]any{
		"spec.args":                             many(20, 1000),
		"spec.credentials":                      long,
		"spec.identityRef":                      map[string]any{"name": "n", "context": long},
		"spec.hostSelector.matchLabels":         many(33, 1),
		"spec.hostSelector.matchLabels.k":       long,
		"spec.hostSelector.matchLabels." + long: "v",
		"spec.hostSelector.matchExpressions":    slices.Repeat([]any{expression("k", nil)}, 33),
		"spec.hostSelector.matchExpressions ":   slices.Repeat([]any{expression("k", values(100, 1))}, 3),
		"spec.hostSelector.matchExpressions  ":  []any{expression("k", []any{long})},
		"spec.hostSelector.matchExpressions   ": []any{expression(long, nil)},
		"spec.hostSelector.inNamespace":         long,
		"spec.image":                            map[string]any{"url": long},
		"spec.image ":                           map[string]any{"url": "u", "checksum": long},
		"spec.image  ":                          map[string]any{"url": "u", "ociAuthSecretName": long},
		"spec.customDeploy":                     map[string]any{"method": long},
		"spec.userData":                         map[string]any{"name": long},
		"spec.metaData":                         map[string]any{"name": "n", "namespace": long},
		"spec.networkData":                      map[string]any{"name": long},
		"spec.consumerRef":                      map[string]any{"fieldPath": long},
		"spec.consumerRef ":                     map[string]any{"namespace": long},
		"spec.failureDomain":                    long,
		"status.addresses":                      slices.Repeat([]any{map[string]any{"type": "t", "address": "a"}}, 200),
		"status.addresses ":                     []any{map[string]any{"type": "t", "address": long}},
		"status.nics":                           []any{map[string]any{"name": long}},
		"status.bootMACAddress":                 long,
		"status.bareMetalHost":                  map[string]any{"namespace": "n", "name": long},
		"status.pendingHost":                    map[string]any{"namespace": long, "name": "n"},
		"status.remote":                         map[string]any{"server": long, "authority": "a", "namespace": "n", "name": "n"},
		"status.conditions": []any{map[string]any{
			"type": "T", "status": "True", "reason": "R", "message": long, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "bounds")
		w.namespace(ctx, infra)
		w.namespace(ctx, team)
	})

	It("are those that the API server keeps, and it says what is too large", func(ctx SpecContext) {
		Expect(w.admin.Create(ctx, claimWith("plain", "spec.online", true))).To(Succeed())
		for path, value := range oversize {
			path = strings.TrimSpace(path)
			var err error
			if strings.HasPrefix(path, "spec") {
				err = w.admin.Create(ctx, claimWith("refused", path, value), client.DryRunAll)
			} else {
				err = w.admin.Status().Patch(ctx, claimWith("plain", path, value), client.Merge, client.DryRunAll)
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", path, err)
			field := strings.Join(strings.SplitN(path, ".", 3)[:2], ".")
			Expect(err.Error()).To(And(ContainSubstring(field), MatchRegexp("(?i)too long|too many|may not be more than")), path)
		}
	})

	It("let everything through that somebody has a use for", func(ctx SpecContext) {
		for path, value := range map[string]any{
			"spec.args":                          many(60, 200),
			"spec.hostSelector.matchLabels":      many(32, 63),
			"spec.hostSelector.matchExpressions": slices.Repeat([]any{expression("a.b/c", values(8, 63))}, 32),
			"spec.image":                         map[string]any{"url": "https://" + long[:4000], "checksum": long[:4000]},
			"spec.consumerRef":                   map[string]any{"namespace": team, "name": strings.Repeat("n", 253), "kind": "Metal3Machine"},
		} {
			Expect(w.admin.Create(ctx, claimWith("large", path, value), client.DryRunAll)).To(Succeed(), path)
		}
	})

	It("hold up no claim that is older than they are", func(ctx SpecContext) {
		ours := hostClaimCRD(ctx)
		Expect(w.replaceCRD(ctx, unbounded(ours))).To(Succeed())
		old := claimWith("old", "spec.args", many(20, 1000))
		put(old.Object, "spec.hostSelector.matchExpressions", slices.Repeat([]any{expression("k", values(100, 1))}, 3))
		put(old.Object, "spec.consumerRef", map[string]any{"fieldPath": long})
		Eventually(func() error { return w.admin.Create(ctx, old.DeepCopy()) }).Should(Succeed())
		status := old.DeepCopy()
		put(status.Object, "status.conditions", oversize["status.conditions"])
		Expect(w.admin.Status().Patch(ctx, status, client.Merge)).To(Succeed())
		Expect(w.replaceCRD(ctx, ours)).To(Succeed())
		Eventually(func() error {
			return w.admin.Create(ctx, claimWith("refused", "spec.args", many(20, 1000)), client.DryRunAll)
		}).Should(MatchError(apierrors.IsInvalid, "is invalid"))

		w.start(ctx)
		Eventually(w.associated(ctx, team, "old")).Should(HavePrefix("False NoBareMetalHost"))
		Expect(w.getClaim(ctx, team, "old").Finalizers).To(ConsistOf(metal3v1.BareMetalFinalizer))
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "old"))).To(Succeed())
		Eventually(func() bool {
			err := w.admin.Get(ctx, types.NamespacedName{Namespace: team, Name: "old"}, &metal3v1.HostClaim{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
	})

	It("take nothing off a claim whose metadata is larger than what is kept of it", func(ctx SpecContext) {
		const finalizers = 300
		claim := claimWith("huge", "spec.online", true)
		labels, annotations, names := map[string]string{}, map[string]string{}, []string{}
		for i := range finalizers {
			key := fmt.Sprintf("%s/%d", strings.Repeat("metal3.io.", 10)+"example", i)
			labels[key], annotations[key], names = "v", strings.Repeat("v", 100), append(names, key)
		}
		claim.SetLabels(labels)
		claim.SetAnnotations(annotations)
		claim.SetFinalizers(names)
		Expect(w.admin.Create(ctx, claim)).To(Succeed())
		w.host(ctx, infra, "h", nil)
		expectWhole := func(ctx context.Context) {
			GinkgoHelper()
			is := w.getClaim(ctx, team, "huge")
			Expect(is.Finalizers).To(ContainElements(names))
			for key := range labels {
				Expect(is.Labels).To(HaveKeyWithValue(key, labels[key]))
				Expect(is.Annotations).To(HaveKeyWithValue(key, annotations[key]))
			}
		}
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "plain"))).To(Succeed())
		Eventually(w.consumer(ctx, infra, "h")).Should(Equal(team + "/huge"))
		Eventually(w.associated(ctx, team, "huge")).Should(HavePrefix("True"))
		Expect(w.getClaim(ctx, team, "huge").Finalizers).To(ContainElement(metal3v1.BareMetalFinalizer))
		expectWhole(ctx)

		By("deleting it: only our own finalizer goes")
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "huge"))).To(Succeed())
		Eventually(w.consumer(ctx, infra, "h")).Should(BeEmpty())
		Eventually(func() []string { return w.getClaim(ctx, team, "huge").Finalizers }).ShouldNot(ContainElement(metal3v1.BareMetalFinalizer))
		expectWhole(ctx)
		Expect(w.admin.Patch(ctx, unstructuredClaim(team, "huge"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	})

	It("are those of annotations that nobody reads, which stay although a cache drops them", func(ctx SpecContext) {
		claim := claimWith("noted", "spec.online", true)
		claim.SetAnnotations(map[string]string{"example.com/note": long, metal3v1.RebootAnnotation: ""})
		claim.SetLabels(map[string]string{"example.com/note": "v"})
		Expect(w.admin.Create(ctx, claim)).To(Succeed())
		Eventually(w.associated(ctx, team, "noted")).Should(HavePrefix("True"))
		Eventually(func() map[string]string { return w.getClaim(ctx, team, "noted").Annotations }).ShouldNot(HaveKey(metal3v1.RebootAnnotation))
		Expect(w.getClaim(ctx, team, "noted").Annotations).To(HaveKeyWithValue("example.com/note", long))
		Expect(w.getClaim(ctx, team, "noted").Labels).To(HaveKeyWithValue("example.com/note", "v"))
	})
})
