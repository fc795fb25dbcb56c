package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
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
		namespace = f.Namespace(ctx, nil)
	})

	It("makes a new record take another name", func(ctx context.Context) {
		twin := f.Cluster(ctx, namespace, "early-capi")
		cluster := f.Cluster(ctx, namespace, "early", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.V1Records(ctx, cluster)[0].Name).To(And(HavePrefix("early-"), HaveSuffix("-capi"), Not(Equal("early-capi"))))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
		Expect(importing.Current(ctx, f.Client, twin).DeletionTimestamp).To(BeNil())
	})

	It("lets the other one be un-imported when it has gone", func(ctx context.Context) {
		cluster := f.Cluster(ctx, namespace, "patient", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		twin := builder.Cluster(namespace, "patient-capi")
		Expect(f.Client.Create(ctx, twin)).To(Succeed())
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RancherClusterNameTaken"))
		Expect(f.Client.Delete(ctx, twin)).To(Succeed())
		Eventually(func() []provisioningv1.Cluster { return f.V1Records(ctx, cluster) }).Should(BeEmpty())
		Eventually(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).ShouldNot(ContainElement(importing.Finalizer))
	})

	It("survives when it is created later and the other one is deleted", func(ctx context.Context) {
		cluster := f.Cluster(ctx, namespace, "late", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		// Rancher has written the kubeconfig Secret of this name already.
		twin := builder.Cluster(namespace, "late-capi")
		importing.Selected(twin)
		Expect(f.Client.Create(ctx, twin)).To(Succeed())
		f.Status(ctx, twin, builder.ControlPlaneUp)
		Eventually(f.Reason(ctx, twin)).Should(Equal("False/RancherClusterNameTaken"), "its kubeconfig Secret is that of the other one")

		By("un-importing")
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RancherClusterNameTaken"))
		Consistently(f.K(ctx).Get(twin)).Should(Succeed())

		By("deleting")
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Consistently(f.K(ctx).Get(twin)).WithTimeout(importing.Quiet).Should(Succeed())
		Expect(f.V1Records(ctx, cluster)).To(HaveLen(1))
	})

	It("is not imported under the name of a v1 Cluster that was created in Rancher", func(ctx context.Context) {
		// It has none of the labels by which the manager's cache knows records.
		foreign := &provisioningv1.Cluster{}
		foreign.Namespace, foreign.Name = namespace, "shadow"
		foreign.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
		Expect(f.Client.Create(ctx, foreign)).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "shadow", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RancherClusterNameTaken"))
		Expect(importing.Current(ctx, f.Client, cluster).Finalizers).NotTo(ContainElement(importing.Finalizer))
		Consistently(func() []provisioningv1.Cluster { return f.V1Records(ctx, cluster) }).Should(BeEmpty())
	})
})
