package hostclaim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/env"
)

// releasedSpec returns a spec of Metal3's released type with all fields but image and customDeploy, of which Archelon
// takes one.
func releasedSpec(team, infra string) bmov1.HostClaimSpec {
	secret := func(name string) *corev1.SecretReference { return &corev1.SecretReference{Namespace: team, Name: name} }
	return bmov1.HostClaimSpec{
		PoweredOn: true, UserData: secret("user"), MetaData: secret("meta"), NetworkData: secret("network"), FailureDomain: "z1",
		HostSelector: bmov1.HostSelector{
			MatchLabels: map[string]string{"infra-kind": "medium"}, InNamespace: infra,
			MatchExpressions: []bmov1.HostSelectorRequirement{
				{Key: "infra-kind", Operator: selection.In, Values: []string{"medium", "large"}},
				{Key: "broken", Operator: selection.DoesNotExist, Values: []string{}},
				{Key: "infra-kind", Operator: selection.NotEquals, Values: []string{"large"}},
			},
		},
		ConsumerRef: &corev1.ObjectReference{
			APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Namespace: team, Name: "m", UID: "u", ResourceVersion: "1", FieldPath: "spec",
		},
	}
}

// fieldsOf returns the paths of all fields that an object has, those of lists below "[]".
func fieldsOf(path string, value any, into map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			fieldsOf(path+"."+key, each, into)
		}
	case []any:
		for _, each := range value {
			fieldsOf(path+"[]", each, into)
		}
	}
	into[path] = true
}

// fieldsOfSchema returns the paths of all fields that a schema has.
func fieldsOfSchema(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	paths := []string{path}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		paths = append(paths, fieldsOfSchema(path+"."+name, schema.Properties[name])...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		paths = append(paths, fieldsOfSchema(path+"[]", *schema.Items.Schema)...)
	}
	return paths
}

// releasedCRD returns the CRD of HostClaims that Metal3 has released.
func releasedCRD(ctx context.Context) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	dir, err := env.Metal3CRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	raw, err := os.ReadFile(filepath.Join(dir, "metal3.io_hostclaims.yaml"))
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(raw, crd)).To(Succeed())
	return crd
}

var _ = Describe("Claims beside Metal3", Ordered, func() {
	const team, infra = "team-a", "infra"
	var w *world

	// released creates a claim as a program does that has Metal3's types, and returns its spec.
	released := func(ctx context.Context, name string, spec bmov1.HostClaimSpec) map[string]any {
		GinkgoHelper()
		raw, err := json.Marshal(spec)
		Expect(err).NotTo(HaveOccurred())
		sent := map[string]any{}
		Expect(json.Unmarshal(raw, &sent)).To(Succeed())
		claim := unstructuredClaim(team, name)
		claim.Object["spec"] = runtime.DeepCopyJSON(sent)
		Expect(w.admin.Create(ctx, claim, client.FieldValidation(metav1.FieldValidationStrict))).To(Succeed())
		return sent
	}
	served := func(ctx context.Context, name string) func() string {
		return func() string {
			is := meta.FindStatusCondition(w.getClaim(ctx, team, name).Status.Conditions, "ServedByArchelon")
			if is == nil {
				return "none"
			}
			return fmt.Sprintf("%s %s: %s", is.Status, is.Reason, is.Message)
		}
	}
	version := func(ctx context.Context, name string) func() string {
		return func() string { return w.getClaim(ctx, team, name).ResourceVersion }
	}
	patch := func(ctx context.Context, name, what string) {
		GinkgoHelper()
		Expect(w.admin.Patch(ctx, unstructuredClaim(team, name), client.RawPatch(types.MergePatchType, []byte(what)))).To(Succeed())
	}
	free := func(ctx context.Context, name string) {
		w.host(ctx, infra, name, func(h *bmov1.BareMetalHost) { h.Labels["only"] = name })
	}
	theirs := func(ctx context.Context, name string) {
		GinkgoHelper()
		claim := unstructuredClaim(team, name)
		claim.SetFinalizers([]string{"metal3.io/hostclaim"})
		claim.Object["spec"] = map[string]any{"poweredOn": false, "hostSelector": map[string]any{"matchLabels": map[string]any{"only": name}}}
		Expect(w.admin.Create(ctx, claim)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "hostclaim-metal3")
		w.namespace(ctx, infra)
		w.namespace(ctx, team)
		for _, name := range []string{"user", "meta", "network", "registry"} {
			w.create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}, Data: map[string][]byte{"value": []byte("x: y")},
			})
		}
		w.operate()
		w.start(ctx)
	})

	It("work unchanged if they say all that Metal3's released type says", func(ctx SpecContext) {
		image, custom := releasedSpec(team, infra), releasedSpec(team, infra)
		image.Image = &bmov1.Image{
			URL: "oci://registry.example/image", Checksum: "sum", ChecksumType: bmov1.SHA256, DiskFormat: new("raw"), OCIAuthSecretName: new("registry"),
		}
		custom.CustomDeploy = &bmov1.CustomDeploy{Method: "install"}

		By("comparing the fields with those of the released CRD")
		said := map[string]bool{}
		for name, spec := range map[string]bmov1.HostClaimSpec{"image": image, "custom": custom} {
			w.host(ctx, infra, name, func(h *bmov1.BareMetalHost) {
				h.Labels["infrastructure.cluster.x-k8s.io/failure-domain"] = "z1"
			})
			sent := released(ctx, name, spec)
			fieldsOf("spec", sent, said)
			kept := unstructuredClaim(team, name)
			Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
			got, _, err := unstructured.NestedMap(kept.Object, "spec")
			Expect(err).NotTo(HaveOccurred())
			sent["kind"] = "baremetal" // The default is the only field that is added.
			Expect(got).To(Equal(sent))
			Eventually(func() bool { return w.getClaim(ctx, team, name).Status.Ready }).Should(BeTrue(), func() string {
				return w.associated(ctx, team, name)()
			})
		}
		schema := releasedCRD(ctx).Spec.Versions[0].Schema.OpenAPIV3Schema
		Expect(slices.Collect(maps.Keys(said))).To(ContainElements(fieldsOfSchema("spec", schema.Properties["spec"])))

		By("reading the status by the released type, which has all that the released CRD has")
		read := &bmov1.HostClaim{}
		found := unstructuredClaim(team, "image")
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(found), found)).To(Succeed())
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, read)).To(Succeed())
		Expect(read.Spec).To(Equal(image))
		Expect(read.Status.BareMetalHost).NotTo(BeNil())
		Expect(read.Status.PoweredOn).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(read.Status.Conditions, bmov1.ReadyCondition)).To(BeTrue())

		By("comparing the host with one of a claim in Archelon's spelling")
		for name, spec := range map[string]bmov1.HostClaimSpec{"image": image, "custom": custom} {
			ours := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name + "-ours"}}
			raw, err := json.Marshal(spec)
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(raw, &ours.Spec)).To(Succeed())
			ours.Spec.Online, ours.Spec.PoweredOn = ours.Spec.PoweredOn, nil
			w.host(ctx, infra, ours.Name, func(h *bmov1.BareMetalHost) {
				h.Labels["infrastructure.cluster.x-k8s.io/failure-domain"] = "z1"
			})
			w.create(ctx, ours)
			Eventually(func() bool { return w.getClaim(ctx, team, ours.Name).Status.Ready }).Should(BeTrue())
			Expect(w.hostOf(ctx, team, ours.Name)).To(Equal(w.hostOf(ctx, team, name)))
		}
	})

	It("are left to Metal3's controller if it has taken them", func(ctx SpecContext) {
		free(ctx, "theirs")
		theirs(ctx, "theirs")
		Eventually(served(ctx, "theirs")).Should(Equal("False ServedByMetal3: Metal3's own controller has taken this HostClaim. To have Archelon serve it, " +
			"remove --hostclaims from the baremetal-operator, and then finalizer metal3.io/hostclaim from this HostClaim"))
		claim := w.getClaim(ctx, team, "theirs")
		Expect(claim.Finalizers).To(ConsistOf("metal3.io/hostclaim"))
		Expect(claim.Status.Conditions).To(HaveLen(1))
		Expect(append(slices.Collect(maps.Keys(claim.Labels)), slices.Collect(maps.Keys(claim.Annotations))...)).To(BeEmpty())
		Consistently(version(ctx, "theirs"), "3s").Should(Equal(claim.ResourceVersion))
		Expect(w.consumer(ctx, infra, "theirs")()).To(BeEmpty())

		By("deleting it")
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "theirs"))).To(Succeed())
		is := version(ctx, "theirs")()
		Consistently(version(ctx, "theirs")).Should(Equal(is))
		patch(ctx, "theirs", `{"metadata":{"finalizers":null}}`)
		Eventually(func() bool {
			return apierrors.IsNotFound(w.admin.Get(ctx, types.NamespacedName{Namespace: team, Name: "theirs"}, &metal3v1.HostClaim{}))
		}).Should(BeTrue())
	})

	It("go on with the host that Metal3's controller gave them, once its finalizer is gone", func(ctx SpecContext) {
		free(ctx, "handed")
		theirs(ctx, "handed")
		Eventually(served(ctx, "handed")).Should(HavePrefix("False"))
		w.changeHost(ctx, infra, "handed", func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: team, Name: "handed"}
		})
		patch(ctx, "handed", `{"metadata":{"finalizers":null}}`)
		Eventually(w.associated(ctx, team, "handed")).Should(Equal(bound))
		Eventually(served(ctx, "handed")).Should(Equal("none"))
		Eventually(func() types.UID { return w.getHost(ctx, infra, "handed").Spec.ConsumerRef.UID }).
			Should(Equal(w.getClaim(ctx, team, "handed").UID))
	})

	It("say so if Metal3's controller takes them as well, and do not fight with it", func(ctx SpecContext) {
		free(ctx, "both")
		w.claim(ctx, team, "both", "hostSelector: {matchLabels: {only: both}}")
		Eventually(w.associated(ctx, team, "both")).Should(Equal(bound))
		patch(ctx, "both", `{"metadata":{"finalizers":["hostclaims.metal3.io/baremetal","metal3.io/hostclaim"]}}`)
		Eventually(served(ctx, "both")).Should(HavePrefix("True SharedWithMetal3"))
		claim := w.getClaim(ctx, team, "both")
		meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: "False", Reason: "IssuesReported", Message: "* Provisioned: NotProvisioned", ObservedGeneration: claim.Generation,
		})
		Expect(w.admin.Status().Update(ctx, claim)).To(Succeed())
		is := version(ctx, "both")()
		Consistently(version(ctx, "both")).Should(Equal(is))
		patch(ctx, "both", `{"metadata":{"finalizers":["hostclaims.metal3.io/baremetal"]}}`)
		Eventually(served(ctx, "both")).Should(Equal("none"))
		Eventually(func() bool {
			return meta.IsStatusConditionTrue(w.getClaim(ctx, team, "both").Status.Conditions, "Ready")
		}).Should(BeTrue())
	})
})

// hostOf returns the spec of the host of a claim, without what differs between two hosts.
func (w *world) hostOf(ctx context.Context, namespace, claim string) string {
	GinkgoHelper()
	ref := w.getClaim(ctx, namespace, claim).Status.BareMetalHost
	Expect(ref).NotTo(BeNil())
	spec := w.getHost(ctx, ref.Namespace, ref.Name).Spec
	spec.ConsumerRef, spec.BMC = nil, bmov1.BMCDetails{}
	raw, err := yaml.Marshal(spec)
	Expect(err).NotTo(HaveOccurred())
	return strings.ReplaceAll(string(raw), ref.Name+"-hc-", "HOST-hc-")
}
