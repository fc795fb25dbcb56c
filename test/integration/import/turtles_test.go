package import_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
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

// Rancher Turtles was here first. Records have exactly the shape that it writes.
var _ = Describe("Turtles", func() {
	stageOptions := func(name string) stage.Options {
		return stage.Options{Name: name, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }}
	}

	Describe("as v3", Ordered, func() {
		var f *fixture
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stageOptions("turtles-v3"))
			f.startManager(ctx, "--feature-gates=managementv3-cluster=true", "--adopt-turtles=false")
		})

		It("imports nothing while Turtles is at work, and goes on when it is not", func(ctx context.Context) {
			lease := f.TurtlesAtWork(ctx)
			cluster := f.Cluster(ctx, f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"}), "prod")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TurtlesActive"))
			Consistently(func() int { return len(f.V3Records(ctx, cluster)) }).Should(BeZero())
			// The Lease is renewed once more, by a clock that is behind ours, and not any more then.
			f.Patch(ctx, lease, func(o client.Object) {
				lease, ok := o.(*coordinationv1.Lease)
				Expect(ok).To(BeTrue())
				lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Minute)}
			})
			Consistently(f.Reason(ctx, cluster)).WithTimeout(importing.Quiet).Should(Equal("False/TurtlesActive"))
			Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})

		It("is not held up by a Lease that a tenant has made", func(ctx context.Context) {
			namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
			lease := f.TurtlesLease(ctx, namespace)
			f.Patch(ctx, lease, func(client.Object) { lease.Spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) })
			cluster := f.Cluster(ctx, namespace, "prod")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})

		It("refuses a record of Turtles, adopts it when asked, and keeps it", func(ctx context.Context) {
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", func(c *clusterv1.Cluster) {
				importing.Selected(c)
				c.Finalizers = []string{builder.TurtlesHold}
			})
			theirs := f.turtlesV3Record(ctx, cluster)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
			Expect(f.V3Records(ctx, cluster)).To(HaveLen(1))

			By("adopting it without a new registration")
			token := registrationToken(ctx, f, theirs.GetName())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, managedBy, "archelon") })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			importing.Current(ctx, f.Client, theirs)
			Expect(theirs.GetFinalizers()).To(And(ContainElement(importing.Finalizer), Not(ContainElement(builder.TurtlesHold))))
			Expect(theirs.GetLabels()).To(HaveKeyWithValue(importing.UIDLabel, string(cluster.UID)))
			Expect(importing.Current(ctx, f.Client, cluster).Finalizers).To(And(ContainElement(importing.Finalizer), Not(ContainElement(builder.TurtlesHold))))
			Expect(cluster.Annotations).To(HaveKeyWithValue(importing.RecordKey, "v3/"+theirs.GetName()))
			Expect(f.V3Records(ctx, cluster)).To(HaveLen(1))
			Expect(registrationToken(ctx, f, theirs.GetName()).UID).To(Equal(token.UID))
			Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("Adopted"))

			By("keeping it, whatever a tenant writes")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, managedBy, "rancher-turtles") })
			Consistently(f.Reason(ctx, cluster)).WithTimeout(importing.Quiet).Should(Equal("True/Imported"))
			Expect(importing.Current(ctx, f.Client, theirs).GetFinalizers()).To(ContainElement(importing.Finalizer))
			Expect(theirs.GetLabels()).To(HaveKeyWithValue(importing.UIDLabel, string(cluster.UID)))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})

		It("keeps a new cluster out that is assigned to Turtles, until it is assigned to Archelon", func(ctx context.Context) {
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected, func(c *clusterv1.Cluster) {
				importing.SetAnnotation(c, managedBy, "rancher-turtles")
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AssignedToTurtles"))
			Expect(f.V3Records(ctx, cluster)).To(BeEmpty())
			Expect(importing.Current(ctx, f.Client, cluster).Finalizers).NotTo(ContainElement(importing.Finalizer))
			f.Patch(ctx, cluster, func(o client.Object) { importing.SetAnnotation(o, managedBy, "archelon") })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})

		It("releases the Rancher cluster of an earlier incarnation that is deleted in Rancher while the cluster is assigned to Turtles", func(ctx context.Context) {
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "restored", importing.Selected, func(c *clusterv1.Cluster) {
				importing.SetAnnotation(c, managedBy, "rancher-turtles")
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AssignedToTurtles"))
			old := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "c-",
				Labels: map[string]string{
					importing.OwnedLabel: "", importing.OwnerLabel: cluster.Name, importing.OwnerNSLabel: cluster.Namespace, importing.UIDLabel: "before-the-restore",
				},
				Finalizers: []string{importing.Finalizer},
			}}
			Expect(f.Client.Create(ctx, old)).To(Succeed())
			Consistently(func() []string { return importing.Current(ctx, f.Client, old).Finalizers }).
				Should(ContainElement(importing.Finalizer), "it was not deleted")
			Expect(f.Client.Delete(ctx, old)).To(Succeed())
			Eventually(f.K(ctx).Get(old)).Should(Satisfy(apierrors.IsNotFound))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		})
	})

	// What Turtles finds by the owner labels it follows, and puts its finalizer on.
	for _, strategy := range importing.Strategies() {
		Describe("was at work for a while beside "+strategy+" records", nightlyUnless(strategy == "v3"), Ordered, func() {
			var (
				f       *fixture
				cluster *clusterv1.Cluster
				touched []client.Object
			)
			touch := func(ctx context.Context) {
				GinkgoHelper()
				for _, object := range touched {
					f.Patch(ctx, importing.Current(ctx, f.Client, object), func(o client.Object) { controllerutil.AddFinalizer(o, builder.TurtlesHold) })
				}
			}
			BeforeAll(func(ctx context.Context) {
				options := stageOptions("turtles-was-" + strategy)
				options.Audit = true
				f = newFixture(ctx, options)
				f.run(ctx, importing.Gate(strategy), "--adopt-turtles=false", "--sync-period=1h")
				cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
				Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
				record := f.Look(ctx).Records(strategy, cluster)[0]
				touched = []client.Object{cluster, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: importing.InternalName(record)}}}
			})

			It("takes a cluster back when it is asked to, once Turtles is off", func(ctx context.Context) {
				lease := f.TurtlesAtWork(ctx)
				touch(ctx)
				Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
				Consistently(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).
					Should(ContainElement(builder.TurtlesHold), "nobody asked")
				f.Patch(ctx, cluster, func(o client.Object) { importing.SetAnnotation(o, managedBy, "archelon") })
				Consistently(func() []string { return importing.Current(ctx, f.Client, cluster).Finalizers }).
					Should(ContainElement(builder.TurtlesHold), "Turtles is at work")
				Expect(f.Reason(ctx, cluster)()).To(Equal("False/ManagedByTurtles"))
				Expect(f.Client.Delete(ctx, lease)).To(Succeed())
				Eventually(f.Reason(ctx, cluster)).WithTimeout(patience).Should(Equal("True/Imported"))
				for _, object := range touched {
					Eventually(func() []string { return importing.Current(ctx, f.Client, object).GetFinalizers() }).ShouldNot(ContainElement(builder.TurtlesHold))
				}
				Expect(cluster.Finalizers).To(ContainElement(importing.Finalizer))
			})

			It("writes nothing to a cluster that is asked for and not touched", func(ctx context.Context) {
				before := len(f.RequestsFor(cluster))
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, "example.com/wakes", "it") })
				Consistently(func() []auditv1.Event {
					return slices.DeleteFunc(f.RequestsFor(cluster)[before:], func(e auditv1.Event) bool { return e.Verb == "get" })
				}).WithTimeout(importing.Quiet).Should(BeEmpty())
			})

			It("ends with its cluster then", func(ctx context.Context) {
				touch(ctx)
				for _, object := range touched {
					Eventually(func() []string { return importing.Current(ctx, f.Client, object).GetFinalizers() }).ShouldNot(ContainElement(builder.TurtlesHold))
				}
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
				Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
				f.ExpectNothingLeft(ctx, cluster)
			})
		})
	}

	Describe("as v1", Ordered, func() {
		var f *fixture
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stageOptions("turtles-v1"))
		})

		It("refuses a v1 record of Turtles, and adopts it under the flag", func(ctx context.Context) {
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
			theirs := builder.TurtlesV1Record(cluster)
			Expect(f.Client.Create(ctx, theirs)).To(Succeed())
			f.startManager(ctx, "--adopt-turtles=false")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
			Expect(f.V1Records(ctx, cluster)).To(BeEmpty())

			Expect(f.Manager.Stop()).To(Succeed())
			f.startManager(ctx, "--adopt-turtles")
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(importing.Current(ctx, f.Client, theirs).GetLabels()).
				To(And(HaveKeyWithValue(importing.UIDLabel, string(cluster.UID)), HaveKeyWithValue(importing.OwnerLabel, "prod")))
			Expect(f.V1Records(ctx, cluster)).To(HaveLen(1))
		})
	})
})

func registrationToken(ctx context.Context, f *fixture, namespace string) *managementv3.ClusterRegistrationToken {
	GinkgoHelper()
	token := &managementv3.ClusterRegistrationToken{}
	Eventually(func() error {
		return f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default-token"}, token)
	}).Should(Succeed())
	return token
}
