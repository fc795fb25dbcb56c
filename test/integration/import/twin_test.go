package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
)

// When Rancher deletes a v1 Cluster, it deletes the CAPI cluster of the same name. Nothing that this project does
// leads to that.
var _ = Describe("A CAPI cluster with the name of a v1 record", Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "twin"})
		f.startManager(ctx)
		namespace = f.namespace(ctx, nil)
	})

	It("makes a new record take another name", func(ctx context.Context) {
		twin := f.cluster(ctx, namespace, "early-capi")
		cluster := f.cluster(ctx, namespace, "early", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.v1Records(ctx, cluster)[0].Name).To(And(HavePrefix("early-"), HaveSuffix("-capi"), Not(Equal("early-capi"))))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		f.expectNothingLeft(ctx, cluster)
		Expect(current(ctx, f, twin).DeletionTimestamp).To(BeNil())
	})

	It("lets the other one be un-imported when it has gone", func(ctx context.Context) {
		cluster := f.cluster(ctx, namespace, "patient", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		twin := builder.Cluster(namespace, "patient-capi")
		Expect(f.Client.Create(ctx, twin)).To(Succeed())
		f.choose(ctx, current(ctx, f, cluster), "false")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RecordNameTaken"))
		Expect(f.Client.Delete(ctx, twin)).To(Succeed())
		Eventually(func() []provisioningv1.Cluster { return f.v1Records(ctx, cluster) }).Should(BeEmpty())
		Eventually(func() []string { return current(ctx, f, cluster).Finalizers }).ShouldNot(ContainElement(finalizer))
	})

	It("survives when it is created later and the other one is deleted", func(ctx context.Context) {
		cluster := f.cluster(ctx, namespace, "late", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		// Rancher has written the kubeconfig Secret of this name already.
		twin := builder.Cluster(namespace, "late-capi")
		selected(twin)
		Expect(f.Client.Create(ctx, twin)).To(Succeed())
		f.status(ctx, twin, builder.ControlPlaneUp)
		Eventually(f.reason(ctx, twin)).Should(Equal("False/RecordNameTaken"), "its kubeconfig Secret is that of the other one")

		By("un-importing")
		f.choose(ctx, current(ctx, f, cluster), "false")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RecordNameTaken"))
		Consistently(f.gone(ctx, twin)).Should(BeFalse())

		By("deleting")
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		Consistently(f.gone(ctx, twin)).WithTimeout(reaction).Should(BeFalse())
		Expect(f.v1Records(ctx, cluster)).To(HaveLen(1))
	})

	It("is not imported under the name of a v1 Cluster that was created in Rancher", func(ctx context.Context) {
		// It has none of the labels by which the manager's cache knows records.
		foreign := &provisioningv1.Cluster{}
		foreign.Namespace, foreign.Name = namespace, "shadow"
		foreign.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
		Expect(f.Client.Create(ctx, foreign)).To(Succeed())
		cluster := f.cluster(ctx, namespace, "shadow", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RecordNameTaken"))
		Expect(current(ctx, f, cluster).Finalizers).NotTo(ContainElement(finalizer))
		Consistently(func() []provisioningv1.Cluster { return f.v1Records(ctx, cluster) }).Should(BeEmpty())
	})
})
