package hostclaim_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
)

// foreign returns the CRD of HostClaims without what Metal3's does not have.
func foreign(ours *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd := ours.DeepCopy()
	version := &crd.Spec.Versions[0]
	version.SelectableFields, version.AdditionalPrinterColumns = nil, nil
	properties := version.Schema.OpenAPIV3Schema.Properties
	for part, fields := range map[string][]string{
		"spec":   {"args", "automatedCleaningMode", "credentials", "identityRef", "kind", "online"},
		"status": {"addresses", "bootMACAddress", "nics", "observedGeneration", "pendingHost", "ready", "remote"},
	} {
		of := properties[part]
		of.XValidations, of.Required = nil, nil
		for _, field := range fields {
			delete(of.Properties, field)
		}
		properties[part] = of
	}
	return crd
}

// hostClaimCRD returns that of Archelon, as the chart has it.
func hostClaimCRD(ctx context.Context) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crds, err := env.HostClaimCRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, crd := range crds {
		if crd.Name == "hostclaims.metal3.io" {
			return crd
		}
	}
	Fail("there is no CRD of HostClaims")
	return nil
}

// replaceCRD writes another spec of the CRD of HostClaims.
func (w *world) replaceCRD(ctx context.Context, by *apiextensionsv1.CustomResourceDefinition, options ...client.UpdateOption) error {
	GinkgoHelper()
	all, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	Expect(apiextensionsv1.AddToScheme(all)).To(Succeed())
	c, err := client.New(w.plane.Config, client.Options{Scheme: all})
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(c.Get(ctx, client.ObjectKeyFromObject(by), crd)).To(Succeed())
	crd.Spec.Versions = by.DeepCopy().Spec.Versions
	return c.Update(ctx, crd, options...)
}

var _ = Describe("A CRD of HostClaims that somebody replaces while claims have hosts", Ordered, func() {
	const infra, team = "infra", "team-a"
	const selecting = "online: true\nhostSelector: {matchLabels: {infra-kind: medium}}\n"
	var here, there *world
	var far *tenant
	var target types.UID
	ready := func(ctx context.Context, namespace, name string) func() string {
		return (&tenant{here: here, namespace: namespace}).condition(ctx, name, "Ready")
	}

	// note writes a claim as anybody may do.
	note := func(ctx context.Context, namespace, text string) {
		GinkgoHelper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/note":"`+text+`"}}}`))
		Expect(here.admin.Patch(ctx, unstructuredClaim(namespace, "c"), patch)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		here, there = newWorld(ctx, "crd-here"), newWorld(ctx, "crd-there")
		here.grant(ctx, account, "hostclaim-remote")
		there.namespace(ctx, infra)
		there.operate()
		there.start(ctx)
		for _, name := range []string{"h", "spare"} {
			there.host(ctx, infra, name, nil)
		}
		here.namespace(ctx, infra)
		here.namespace(ctx, team)
		here.operate()
		here.host(ctx, infra, "h", nil)
		here.start(ctx)
		here.startRemote(ctx)
		here.claim(ctx, team, "c", selecting+image)
		Eventually(func() bool { return here.getClaim(ctx, team, "c").Status.Ready }).Should(BeTrue())
		far = newTenant(ctx, here, there, "far")
		far.claim(ctx, "c", selecting+image)
		Eventually(func() bool { return here.getClaim(ctx, far.namespace, "c").Status.Ready }).Should(BeTrue())
		target = far.target(ctx, "c").UID
		here.host(ctx, infra, "spare", nil)
	})

	It("switches no host off, and has no claim take another host", func(ctx SpecContext) {
		ours := hostClaimCRD(ctx)
		Expect(here.replaceCRD(ctx, foreign(ours))).To(Succeed())
		for _, namespace := range []string{team, far.namespace} {
			claim := unstructuredClaim(namespace, "c")
			Eventually(func() (bool, error) {
				err := here.admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)
				_, has, _ := unstructured.NestedFieldNoCopy(claim.Object, "spec", "online")
				return has, err
			}).Should(BeFalse())
			note(ctx, namespace, "while it is another CRD")
		}
		Expect(here.replaceCRD(ctx, ours)).To(Succeed())
		for _, namespace := range []string{team, far.namespace} {
			Eventually(func() string { return here.getClaim(ctx, namespace, "c").Spec.Kind }).Should(Equal("baremetal"), "the default")
			note(ctx, namespace, "since it is Archelon's again")
		}

		// What has happened to the hosts comes first in the message of a failure.
		Eventually(func() string {
			return fmt.Sprintf("%v, %q, ", here.getHost(ctx, infra, "h").Spec.Online, here.consumer(ctx, infra, "spare")()) + ready(ctx, team, "c")()
		}).Should(HavePrefix(`true, "", False FieldsDropped: spec.online is missing`))
		Eventually(ready(ctx, far.namespace, "c")).Should(HavePrefix(`False FieldsDropped: spec.kind is "baremetal"`))
		Expect(far.synced(ctx, "c")()).To(HavePrefix("False FieldsDropped"))
		Consistently(func(g Gomega) {
			g.Expect(here.getHost(ctx, infra, "h").Spec.Online).To(BeTrue())
			g.Expect(here.getHost(ctx, infra, "h").Spec.Image).NotTo(BeNil())
			g.Expect(here.consumer(ctx, infra, "h")()).To(Equal(team + "/c"))
			g.Expect(here.consumer(ctx, infra, "spare")()).To(BeEmpty())
			g.Expect(far.target(ctx, "c").UID).To(Equal(target))
			g.Expect(*far.target(ctx, "c").Spec.Online).To(BeTrue())
		}).Should(Succeed())
	})

	It("leaves the host on until the claim says off", func(ctx SpecContext) {
		write := func(spec string) {
			GinkgoHelper()
			Expect(here.admin.Patch(ctx, unstructuredClaim(team, "c"), client.RawPatch(types.MergePatchType, []byte(spec)))).To(Succeed())
		}
		write(`{"spec":{"online":true}}`)
		Eventually(ready(ctx, team, "c")).Should(HavePrefix("True"))
		write(`{"spec":{"online":false}}`)
		Eventually(func() bool { return here.getHost(ctx, infra, "h").Spec.Online }).Should(BeFalse())
	})

	It("leaves the claim in the other cluster to one that is created again with its former kind", func(ctx SpecContext) {
		claim := unstructuredClaim(far.namespace, "c")
		Expect(here.admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		metadata := map[string]any{"namespace": far.namespace, "name": "c"}
		metadata["labels"], _, _ = unstructured.NestedMap(claim.Object, "metadata", "labels")
		metadata["annotations"], _, _ = unstructured.NestedMap(claim.Object, "metadata", "annotations")
		spec, _, _ := unstructured.NestedMap(claim.Object, "spec")
		raw, err := json.Marshal(map[string]any{"kind": "remote", "credentials": "remote", "online": true, "args": map[string]any{"real-kind": "baremetal"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(raw, &spec)).To(Succeed())

		By("taking the finalizer off: nobody takes the claim, nor a host for it")
		Expect(here.admin.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Consistently(here.consumer(ctx, infra, "spare")).Should(BeEmpty())
		Expect(here.admin.Delete(ctx, claim.DeepCopy())).To(Succeed())

		By("creating it with credentials that lead elsewhere: no second claim there")
		there.namespace(ctx, "user-elsewhere")
		elsewhere := &tenant{here: here, there: there, namespace: far.namespace, user: "user-elsewhere"}
		elsewhere.settleThere(ctx)
		far.credentials(ctx, "remote", elsewhere.newKubeconfig(ctx))
		here.create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": metadata, "spec": spec,
		}})
		Eventually(far.synced(ctx, "c")).Should(HavePrefix("False RemoteIdentityChanged"))
		Expect(elsewhere.targets(ctx, "c")).To(BeEmpty())

		By("restoring the credentials")
		far.credentials(ctx, "remote", far.kubeconfig)
		Eventually(far.synced(ctx, "c")).Should(Equal(inStep))
		Expect(far.target(ctx, "c").UID).To(Equal(target))

		Expect(here.admin.Delete(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": map[string]any{"namespace": far.namespace, "name": "c"},
		}})).To(Succeed())
		Eventually(func() int { return len(far.targets(ctx, "c")) }).Should(BeZero())
	})
})
