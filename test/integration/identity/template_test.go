package identity_test

import (
	"context"
	"encoding/base64"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
)

// The template names namespace test as that of identity and cluster, and another one for the Secret.
var templateScope = identity.Scope{
	Policy: oci.Policy{SecretNamespaces: []string{vault, tenant}, TrustedNamespaces: []string{tenant}},
}

// templatePolicy are the values of the chart for it.
var templatePolicy = map[string]any{"secretNamespaces": []any{vault, tenant}, "trustedNamespaces": []any{tenant}}

// template returns the objects of the proposal's example, word for word, with what stands in brackets filled in. The
// cluster has no metadata there.
func (w *world) template() []*unstructured.Unstructured {
	GinkgoHelper()
	raw, err := os.ReadFile("testdata/template.yaml")
	Expect(err).NotTo(HaveOccurred())
	text := strings.NewReplacer(
		"<test-identity>", identityName, "<test>", tenant, "  passphrase: <> -> optional\n", "",
	).Replace(string(raw))
	for name, value := range w.secretData(w.key) {
		text = strings.Replace(text, name+": <>", name+": "+base64.StdEncoding.EncodeToString(value), 1)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == infrav1.OCIClusterKind {
			object.SetNamespace(tenant)
			object.SetName("workload")
		}
		objects = append(objects, object)
	}
	Expect(objects).To(HaveLen(3))
	return objects
}

func (w *world) createTemplate(ctx context.Context) {
	GinkgoHelper()
	for _, object := range w.template() {
		w.create(ctx, object)
	}
}

func (w *world) cluster(ctx context.Context, namespace, name string) identity.User {
	GinkgoHelper()
	cluster := &infrav1.OCICluster{}
	Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, cluster)).To(Succeed())
	return cluster
}

var _ = Describe("The template of the proposal", func() {
	It("works with a CRD of the proposal's schema, word for word", func(ctx SpecContext) {
		crds := append(
			capociCRDs("ociclusters", "ocimanagedclusters"),
			readCRD("../../../api/infrastructure/crd/"+identityv1.GroupName+"_ociclusteridentities.yaml"),
		)
		w := newWorld(ctx, "proposal", crds)
		w.start(ctx, templateScope, nil)
		w.createTemplate(ctx)
		Eventually(w.condition(ctx, identityName, "Ready")).Should(Equal("True Ready"))
		Eventually(w.condition(ctx, identityName, "InUse")).Should(Equal("True Used: Used by OCICluster test/workload"))
		provider, err := w.principal(ctx, w.cluster(ctx, tenant, "workload"))
		Expect(err).NotTo(HaveOccurred())
		Expect(provider.TenancyOCID()).To(Equal("ocid1.tenancy.oc1..aaaatenancy"))
	})

	It("gets a condition that says what to write where CAPOCI's CRD drops a field of it", func(ctx SpecContext) {
		w := newWorld(ctx, "capoci", capociCRDs())
		w.start(ctx, templateScope, nil)
		w.createTemplate(ctx)
		Eventually(w.condition(ctx, identityName, "Ready")).Should(
			And(HavePrefix("False SecretReferenceInvalid"), ContainSubstring("spec.principalSecret is not set. Set it")),
		)

		By("writing what the condition says")
		found := &identityv1.OCIClusterIdentity{}
		Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: tenant, Name: identityName}, found)).To(Succeed())
		patch := []byte(`{"spec":{"principalSecret":{"namespace":"` + vault + `","name":"` + secretName + `"}}}`)
		Expect(w.admin.Patch(ctx, found, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		Eventually(w.condition(ctx, identityName, "Ready")).Should(Equal("True Ready"))
		Expect(w.resolver.Resolve(ctx, w.cluster(ctx, tenant, "workload"))).To(HaveField("Allowed", true))
	})
})
