package hostclaim_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/standin/capm3"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// The examples of the proposal that begin with a Metal3Machine, as they stand there but for ellipses, which are filled
// in, and stringData, which is stringdata there. test/e2e/metal3 has those that begin with a HostClaim.
const (
	remoteExample = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata:
  name: m3m-xxxx
spec:
  kind: baremetalhost
  credentials: bmh-cluster-credentials
  userData:
    name: my-user-data
  hostSelector:
    matchLabels: {only: example}
  image:
    checksum: https://image_url.qcow2.md5
    format: qcow2
    url: https://image_url.qcow2.md5
---
apiVersion: v1
kind: Secret
metadata:
  name: bmh-cluster-credentials
stringData:
  kubeconfig: |
    apiVersion: v1
    clusters:
    - cluster:
        server: %s
        certificate-authority-data: %s
      name: bmh-cluster
    contexts:
    - context:
        cluster: bmh-cluster
        user: user1
      name: user1@bmh-cluster
      namespace: user1-ns
    current-context: user1@bmh-cluster
    kind: Config
    preferences: {}
    users:
    - name: user1
      user: {token: %s}
---
apiVersion: v1
kind: Secret
metadata:
  name: my-user-data
stringData:
  format: cloud-config
  value: ....
`
	// hybridExample is what Cluster API creates from the template md-i.
	hybridExample = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata:
  name: md-i
spec:
  dataTemplate:
    name: dt-i
  kind: CT_i
  args:
    arg_i1: v1
    arg_ik: vk
  hostSelector:
    matchLabels:
      infra-kind: medium
  image:
    checksum: https://image_url.qcow2.md5
    format: qcow2
    url: https://image_url.qcow2.md5
`
)

// proposedCRD is the one of the provider's release, with the fields of the proposal.
func proposedCRD() *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crd := machineCRD()
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	for i := range crd.Spec.Versions {
		spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["kind"], spec.Properties["credentials"] = text, text
		spec.Properties["args"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text},
		}
	}
	return crd
}

// apply creates the objects of a file as an administrator. What the API server does not know is an error.
func (w *world) apply(ctx context.Context, namespace, text string) {
	GinkgoHelper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		object.SetNamespace(namespace)
		Expect(w.admin.Create(ctx, object, client.FieldValidation("Strict"))).To(Succeed())
	}
}

// exampleSpecs are those that need both clusters, the other one with hosts.
func exampleSpecs(worlds func() (here, there *world, metal3 *standin.Standin)) {
	It("comes of a Metal3Machine as the document has it, and is what the document says", func(ctx SpecContext) {
		here, there, metal3 := worlds()
		t := &tenant{here: here, there: there, namespace: "team-document", user: "user1-ns"}
		t.settle(ctx)
		there.host(ctx, "infra", "example", func(h *bmov1.BareMetalHost) { h.Labels["only"] = "example" })
		_, err := envtest.InstallCRDs(here.plane.Config, envtest.CRDInstallOptions{
			CRDs: []*apiextensionsv1.CustomResourceDefinition{proposedCRD()},
		})
		Expect(err).NotTo(HaveOccurred())
		here.grant(ctx, "bridge", "hostclaim-machines")
		DeferCleanup(here.startMachinesAs(ctx, "bridge", &faults{}))
		user, err := there.plane.ServiceAccountConfig(ctx, t.user, "archelon")
		Expect(err).NotTo(HaveOccurred())
		here.apply(ctx, t.namespace, fmt.Sprintf(
			remoteExample, there.plane.Server(), base64.StdEncoding.EncodeToString(user.CAData), user.BearerToken,
		))
		provider := capm3.Provider{
			Client: here.admin, Data: &corev1.SecretReference{Name: "my-user-data", Namespace: t.namespace},
			Image: &bmov1.Image{URL: "https://image_url.qcow2.md5", Checksum: "https://image_url.qcow2.md5", DiskFormat: new("qcow2")},
		}
		step := func() string { return provider.Step(ctx, t.namespace, "m3m-xxxx") }
		Eventually(step).Should(Equal("provisioned"))

		target := t.target(ctx, "m3m-xxxx")
		Expect(target.Spec.Kind).To(Equal("baremetalhost"))
		Expect(target.Spec.HostSelector.MatchLabels).To(Equal(map[string]string{"only": "example"}))
		Expect(target.Spec.Image).To(HaveValue(Equal(metal3v1.Image{
			URL: "https://image_url.qcow2.md5", Checksum: "https://image_url.qcow2.md5", Format: "qcow2",
		})))
		Expect(target.Spec.Online).To(HaveValue(BeTrue()))
		data := &corev1.Secret{}
		Expect(there.admin.Get(ctx, types.NamespacedName{Namespace: "user1-ns", Name: target.Spec.UserData.Name}, data)).To(Succeed())
		Expect(data.Data).To(Equal(map[string][]byte{"format": []byte("cloud-config"), "value": []byte("....")}))
		Expect(metal3.Provisioned("infra", "example")).To(HaveLen(1))

		By("deleting it")
		Expect(here.admin.Delete(ctx, capm3.NewMachine(t.namespace, "m3m-xxxx"))).To(Succeed())
		Eventually(step).Should(Equal("NotFound"))
		Eventually(t.condition(ctx, "m3m-xxxx", "Ready")).Should(Equal("NotFound"))
		Expect(t.targets(ctx, "m3m-xxxx")).To(BeEmpty())
		Expect(there.getHost(ctx, "infra", "example").Spec.ConsumerRef).To(BeNil())

		By("asking for another kind")
		here.apply(ctx, t.namespace, hybridExample)
		hybrid := func() *metal3v1.HostClaim {
			claim := &metal3v1.HostClaim{}
			_ = here.admin.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: "md-i"}, claim)
			return claim
		}
		Eventually(hybrid).Should(HaveField("Spec.Kind", "CT_i"))
		Expect(hybrid().Spec.Args).To(Equal(map[string]metal3v1.Argument{"arg_i1": "v1", "arg_ik": "vk"}))
		Expect(hybrid().Spec.HostSelector.MatchLabels).To(Equal(map[string]string{"infra-kind": "medium"}))
	})

	It("is told by the other cluster what its host tells, and nothing else (attack R)", func(ctx SpecContext) {
		here, there, _ := worlds()
		t := newTenant(ctx, here, there, "told")
		there.host(ctx, "infra", "told", func(h *bmov1.BareMetalHost) {
			h.Labels["only"], h.Annotations["info.hostclaims.metal3.io/big"] = "told", strings.Repeat("x", 100_000)
		})
		t.claim(ctx, "told", "hostSelector: {matchLabels: {only: told}}\n")
		Eventually(t.condition(ctx, "told", "Associated")).Should(Equal("True BareMetalHostAssociated"))
		before := here.getClaim(ctx, t.namespace, "told")
		target := t.target(ctx, "told")
		forged := target.DeepCopy()
		hostile := map[string]string{
			"cluster.x-k8s.io/paused": "", "hostclaims.metal3.io/abandon-remote": "true", "reboot.metal3.io/hold": "",
			"clusterctl.cluster.x-k8s.io/delete-for-move": "", "example.com/x": "y",
		}
		maps.Copy(forged.Annotations, hostile)
		forged.Labels["cluster.x-k8s.io/cluster-name"] = "of-the-remote"
		forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		forged.Finalizers = append(forged.Finalizers, "example.com/never")
		Expect(there.admin.Patch(ctx, forged, client.MergeFrom(target))).To(Succeed())
		there.changeHost(ctx, "infra", "told", func(h *bmov1.BareMetalHost) { h.Labels["info.hostclaims.metal3.io/rack"] = "r2" })
		// The target is paused now. Whoever has it carries on by hand.
		Expect(there.admin.Patch(ctx, t.target(ctx, "told"), client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"labels":{"info.hostclaims.metal3.io/rack":"r2"}}}`),
		))).To(Succeed())
		source := func() *metal3v1.HostClaim { return here.getClaim(ctx, t.namespace, "told") }
		Eventually(func() map[string]string { return source().Labels }).Should(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "r2"))
		Expect(source().Labels).NotTo(HaveKey("cluster.x-k8s.io/cluster-name"))
		for key := range hostile {
			Expect(source().Annotations).NotTo(HaveKey(key))
		}
		Expect(source().Annotations).NotTo(HaveKey("info.hostclaims.metal3.io/big"))
		Expect(source().OwnerReferences).To(BeEmpty())
		Expect(source().Finalizers).To(Equal(before.Finalizers))
		Expect(there.admin.Patch(ctx, t.target(ctx, "told"), client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		))).To(Succeed())
	})
}
