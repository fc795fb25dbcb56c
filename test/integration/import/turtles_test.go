package import_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
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
			lease := f.turtlesAtWork(ctx)
			cluster := f.cluster(ctx, f.namespace(ctx, map[string]string{importLabel: "true"}), "prod")
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/TurtlesActive"))
			Consistently(func() int { return len(f.v3Records(ctx, cluster)) }).Should(BeZero())
			// The Lease is renewed once more, by a clock that is behind ours, and not any more then.
			f.patch(ctx, lease, func(o client.Object) {
				lease, ok := o.(*coordinationv1.Lease)
				Expect(ok).To(BeTrue())
				lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Minute)}
			})
			Consistently(f.reason(ctx, cluster)).WithTimeout(reaction).Should(Equal("False/TurtlesActive"))
			Eventually(f.reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			f.expectNothingLeft(ctx, cluster)
		})

		It("is not held up by a Lease that a tenant has made", func(ctx context.Context) {
			namespace := f.namespace(ctx, map[string]string{importLabel: "true"})
			lease := f.turtlesLease(ctx, namespace)
			f.patch(ctx, lease, func(client.Object) { lease.Spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) })
			cluster := f.cluster(ctx, namespace, "prod")
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			f.expectNothingLeft(ctx, cluster)
		})

		It("refuses a record of Turtles, adopts it when asked, and hands it back", func(ctx context.Context) {
			cluster := f.cluster(ctx, f.namespace(ctx, nil), "prod", func(c *clusterv1.Cluster) {
				selected(c)
				c.Finalizers = []string{turtlesHold}
			})
			theirs := f.turtlesV3Record(ctx, cluster)
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
			Expect(f.v3Records(ctx, cluster)).To(HaveLen(1))

			By("adopting it without a new registration")
			token := registrationToken(ctx, f, theirs.GetName())
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, managedBy, "archelon") })
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			current(ctx, f, theirs)
			Expect(theirs.GetFinalizers()).To(And(ContainElement(finalizer), Not(ContainElement(turtlesHold))))
			Expect(theirs.GetLabels()).To(HaveKeyWithValue(uidLabel, string(cluster.UID)))
			Expect(current(ctx, f, cluster).Finalizers).To(And(ContainElement(finalizer), Not(ContainElement(turtlesHold))))
			Expect(cluster.Annotations).To(HaveKeyWithValue(recordKey, "v3/"+theirs.GetName()))
			Expect(f.v3Records(ctx, cluster)).To(HaveLen(1))
			Expect(registrationToken(ctx, f, theirs.GetName()).UID).To(Equal(token.UID))
			Eventually(func() []string { return f.events(ctx, cluster) }).Should(ContainElement("Adopted"))

			By("handing it back, connected as it is")
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, managedBy, "rancher-turtles") })
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/HandedToTurtles"))
			current(ctx, f, theirs)
			Expect(theirs.GetFinalizers()).NotTo(ContainElement(finalizer))
			Expect(theirs.GetLabels()).To(And(HaveKeyWithValue(ownerLabel, "prod"), Not(HaveKey(uidLabel))))
			Expect(current(ctx, f, cluster).Finalizers).NotTo(ContainElement(finalizer))
			Expect(theirs.GetDeletionTimestamp()).To(BeNil())

			By("adopting it once more, to clean up")
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, managedBy, "archelon") })
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			f.expectNothingLeft(ctx, cluster)
		})

		It("lets a record of an earlier incarnation go that is deleted in Rancher after the cluster was handed over", func(ctx context.Context) {
			cluster := f.cluster(ctx, f.namespace(ctx, nil), "restored", selected, func(c *clusterv1.Cluster) { setAnnotation(c, managedBy, "rancher-turtles") })
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/HandedToTurtles"))
			old := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "c-",
				Labels:       map[string]string{ownedLabel: "", ownerLabel: cluster.Name, ownerNSLabel: cluster.Namespace, uidLabel: "before-the-restore"},
				Finalizers:   []string{finalizer},
			}}
			Expect(f.Client.Create(ctx, old)).To(Succeed())
			Consistently(func() []string { return current(ctx, f, old).Finalizers }).Should(ContainElement(finalizer), "nobody has deleted it")
			Expect(f.Client.Delete(ctx, old)).To(Succeed())
			Eventually(f.gone(ctx, old)).Should(BeTrue())
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		})
	})

	// What Turtles finds by the owner labels it follows, and puts its finalizer on.
	for _, strategy := range strategies() {
		Describe("was at work for a while beside "+strategy+" records", nightlyUnless(strategy == "v3"), Ordered, func() {
			var (
				f       *fixture
				cluster *clusterv1.Cluster
				touched []client.Object
			)
			touch := func(ctx context.Context) {
				GinkgoHelper()
				for _, object := range touched {
					f.patch(ctx, current(ctx, f, object), func(o client.Object) { controllerutil.AddFinalizer(o, turtlesHold) })
				}
			}
			BeforeAll(func(ctx context.Context) {
				options := stageOptions("turtles-was-" + strategy)
				options.Audit = true
				f = newFixture(ctx, options)
				f.run(ctx, gate(strategy), "--adopt-turtles=false", "--sync-period=1h")
				cluster = f.cluster(ctx, f.namespace(ctx, nil), "prod", selected)
				Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
				record := f.look(ctx).records(strategy, cluster)[0]
				touched = []client.Object{cluster, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: internalName(record)}}}
			})

			It("takes a cluster back when it is asked to, once Turtles is off", func(ctx context.Context) {
				lease := f.turtlesAtWork(ctx)
				touch(ctx)
				Eventually(f.reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
				Consistently(func() []string { return current(ctx, f, cluster).Finalizers }).Should(ContainElement(turtlesHold), "nobody asked")
				f.patch(ctx, cluster, func(o client.Object) { setAnnotation(o, managedBy, "archelon") })
				Consistently(func() []string { return current(ctx, f, cluster).Finalizers }).Should(ContainElement(turtlesHold), "Turtles is at work")
				Expect(f.reason(ctx, cluster)()).To(Equal("False/ManagedByTurtles"))
				Expect(f.Client.Delete(ctx, lease)).To(Succeed())
				Eventually(f.reason(ctx, cluster)).WithTimeout(patience).Should(Equal("True/Imported"))
				for _, object := range touched {
					Eventually(func() []string { return current(ctx, f, object).GetFinalizers() }).ShouldNot(ContainElement(turtlesHold))
				}
				Expect(cluster.Finalizers).To(ContainElement(finalizer))
			})

			It("writes nothing to a cluster that is asked for and not touched", func(ctx context.Context) {
				before := len(f.requestsFor(cluster))
				f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, "example.com/wakes", "it") })
				Consistently(func() []auditv1.Event {
					return slices.DeleteFunc(f.requestsFor(cluster)[before:], func(e auditv1.Event) bool { return e.Verb == "get" })
				}).WithTimeout(reaction).Should(BeEmpty())
			})

			It("ends with its cluster then", func(ctx context.Context) {
				touch(ctx)
				for _, object := range touched {
					Eventually(func() []string { return current(ctx, f, object).GetFinalizers() }).ShouldNot(ContainElement(turtlesHold))
				}
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
				Eventually(f.gone(ctx, cluster)).Should(BeTrue())
				f.expectNothingLeft(ctx, cluster)
			})
		})
	}

	Describe("as v1", Ordered, func() {
		var f *fixture
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stageOptions("turtles-v1"))
		})

		It("refuses a v1 record of Turtles, and adopts it under the flag", func(ctx context.Context) {
			cluster := f.cluster(ctx, f.namespace(ctx, nil), "prod", selected)
			theirs := builder.TurtlesV1Record(cluster)
			Expect(f.Client.Create(ctx, theirs)).To(Succeed())
			f.startManager(ctx, "--adopt-turtles=false")
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/ManagedByTurtles"))
			Expect(f.v1Records(ctx, cluster)).To(BeEmpty())

			Expect(f.manager.Stop()).To(Succeed())
			f.startManager(ctx, "--adopt-turtles")
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(current(ctx, f, theirs).GetLabels()).To(And(HaveKeyWithValue(uidLabel, string(cluster.UID)), HaveKeyWithValue(ownerLabel, "prod")))
			Expect(f.v1Records(ctx, cluster)).To(HaveLen(1))
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
