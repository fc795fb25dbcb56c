package import_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Rancher Turtles runs, for it provides CAPI, and its importer is parked.
var _ = Describe("Turtles, parked", Ordered, func() {
	var (
		f     *fixture
		lease *coordinationv1.Lease
	)
	assign := func(ctx context.Context, namespace, to string) {
		GinkgoHelper()
		f.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(o client.Object) {
			o.SetLabels(map[string]string{managedBy: to})
		})
	}
	// hold has Turtles renew its Lease, which is believed for a minute then.
	hold := func(ctx context.Context) {
		GinkgoHelper()
		f.Patch(ctx, importing.Current(ctx, f.Client, lease), func(client.Object) {
			lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new(int32(3600)), new(metav1.NowMicro())
		})
	}
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "turtles-parked", Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		lease = f.TurtlesAtWork(ctx)
		hold(ctx)
		f.startManager(ctx, "--feature-gates=managementv3-cluster=true", "--adopt-turtles=false", "--turtles-parked", "--sync-period=1h")
	})
	BeforeEach(hold)

	It("imports although the Lease is held", func(ctx context.Context) {
		cluster := f.Cluster(ctx, f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"}), "prod")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	})

	for _, namespaceSelected := range []bool{true, false} {
		It(fmt.Sprintf("adopts when the Namespace asks for it (with the import label: %t), and does not fight", namespaceSelected), func(ctx context.Context) {
			namespace := f.Namespace(ctx, nil)
			if namespaceSelected {
				namespace = f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
			}
			cluster := f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
				importing.Selected(c)
				c.Finalizers = []string{builder.TurtlesHold}
			})
			theirs := f.turtlesV3Record(ctx, cluster)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))

			By("asking for the namespace")
			hold(ctx)
			assign(ctx, namespace, "archelon")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(importing.Current(ctx, f.Client, theirs).GetFinalizers()).To(And(ContainElement(importing.Finalizer), Not(ContainElement(builder.TurtlesHold))))
			Expect(importing.Current(ctx, f.Client, cluster).Finalizers).To(And(ContainElement(importing.Finalizer), Not(ContainElement(builder.TurtlesHold))))

			By("being not parked in fact")
			hold(ctx)
			changes := func() []auditv1.Event {
				return slices.DeleteFunc(f.RequestsFor(cluster), func(e auditv1.Event) bool {
					return e.Verb == "get" || e.ObjectRef.Resource != "clusters" || e.ObjectRef.Subresource == "status"
				})
			}
			before := len(changes())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { controllerutil.AddFinalizer(o, builder.TurtlesHold) })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
			Consistently(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).
				WithTimeout(importing.Quiet).Should(ContainElement(builder.TurtlesHold))
			Expect(changes()[before:]).To(BeEmpty(), "nothing but the condition is written")

			By("ending with its cluster when Turtles lets it go")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { controllerutil.RemoveFinalizer(o, builder.TurtlesHold) })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})
	}

	It("keeps new clusters out of a Namespace that is assigned to Turtles, unless the Cluster says otherwise", func(ctx context.Context) {
		namespace := f.Namespace(ctx, nil)
		imported := f.Cluster(ctx, namespace, "prod", importing.Selected)
		Eventually(f.Reason(ctx, imported)).Should(Equal("True/Imported"))
		assign(ctx, namespace, "rancher-turtles")
		cluster := f.Cluster(ctx, namespace, "new", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AssignedToTurtles"))
		Consistently(f.Reason(ctx, imported)).WithTimeout(importing.Quiet).Should(Equal("True/Imported"), "it was imported before")
		gone := func(cluster *clusterv1.Cluster) {
			GinkgoHelper()
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		}
		gone(imported) // Both have one workload cluster.
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, managedBy, "archelon") })
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"), "the annotation of the Cluster wins")
		assign(ctx, namespace, "me")
		Consistently(f.Reason(ctx, cluster)).WithTimeout(importing.Quiet).Should(Equal("True/Imported"))
		gone(cluster)
	})
})
