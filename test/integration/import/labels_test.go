package import_test

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: somebody takes off a record what it is known by. The record is what users may edit in Rancher.
var _ = Describe("A record that loses its labels", func() {
	for _, strategy := range importing.Strategies() {
		describeLostLabels(strategy)
	}
})

const watchKey = "cluster.x-k8s.io/watch-filter"

func describeLostLabels(strategy string) {
	labels := []string{importing.OwnedLabel, importing.OwnerLabel, importing.OwnerNSLabel, importing.UIDLabel}
	var (
		f         *fixture
		namespace string
	)
	strip := func(ctx context.Context, record client.Object, keys ...string) {
		GinkgoHelper()
		f.Patch(ctx, importing.Current(ctx, f.Client, record), func(o client.Object) {
			found := o.GetLabels()
			maps.DeleteFunc(found, func(key, _ string) bool { return slices.Contains(keys, key) })
			o.SetLabels(found)
		})
	}
	recordOf := func(ctx context.Context, cluster *clusterv1.Cluster) client.Object {
		GinkgoHelper()
		records := f.Look(ctx).Records(strategy, cluster)
		Expect(records).To(HaveLen(1))
		return records[0]
	}
	imported := func(ctx context.Context, name string) (*clusterv1.Cluster, client.Object) {
		GinkgoHelper()
		cluster := f.Cluster(ctx, namespace, name, importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		return cluster, recordOf(ctx, cluster)
	}
	// end deletes a cluster, whose agent nobody else would get.
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	}

	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "labels-" + strategy, Audit: true})
			namespace = f.Namespace(ctx, nil)
		})
		AfterEach(func(ctx context.Context) { f.expectNoAgent(ctx) })

		It("gets the UID of its cluster back", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "prod")
			uid := record.GetUID()
			strip(ctx, record, importing.UIDLabel)
			Eventually(func() string { return importing.Current(ctx, f.Client, record).GetLabels()[importing.UIDLabel] }).Should(Equal(string(cluster.UID)))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(recordOf(ctx, cluster).GetUID()).To(Equal(uid))
			end(ctx, cluster)
		})

		DescribeTable("is let go when it was deleted in Rancher meanwhile, and not made again", func(ctx context.Context, name string, lost []string) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, name)
			Expect(f.Manager.Stop()).To(Succeed())
			strip(ctx, record, lost...)
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			Consistently(f.K(ctx).Get(record)).Should(Succeed())
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, cluster).Annotations }).
				Should(HaveKeyWithValue(importing.ImportedKey, "true"))
			Consistently(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(BeEmpty())
			Expect(importing.Current(ctx, f.Client, cluster).Finalizers).NotTo(ContainElement(importing.Finalizer))
		},
			Entry("without its UID", "no-uid", []string{importing.UIDLabel}),
			Entry("without any label", "no-labels", labels),
		)

		It("is let go when it is deleted in Rancher after its cluster lost the label that the instance goes by", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h", "--watch-filter=a")
			cluster := f.Cluster(ctx, namespace, "unwatched", importing.Selected, func(c *clusterv1.Cluster) { c.Labels[watchKey] = "a" })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			record := recordOf(ctx, cluster)
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { delete(o.GetLabels(), watchKey) })
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Expect(importing.Current(ctx, f.Client, cluster).Annotations).To(HaveKeyWithValue(importing.ImportedKey, "true"))
			Expect(cluster.Annotations).NotTo(HaveKey(importing.RecordKey))
			Expect(cluster.Finalizers).NotTo(ContainElement(importing.Finalizer))
		})

		It("goes with its cluster all the same", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "leaves")
			Expect(f.Manager.Stop()).To(Succeed())
			strip(ctx, record, labels...)
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
		})

		It("is not taken for one that was removed, whatever annotation its cluster has meanwhile", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "annotated")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, importing.ImportedKey, "true") })
			uid := record.GetUID()
			strip(ctx, record, importing.OwnedLabel)
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, record).GetLabels() }).Should(HaveKey(importing.OwnedLabel))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(recordOf(ctx, cluster).GetUID()).To(Equal(uid))

			By("but is when it was")
			Expect(f.Manager.Stop()).To(Succeed())
			strip(ctx, record, importing.OwnedLabel)
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Expect(importing.Current(ctx, f.Client, cluster).Finalizers).NotTo(ContainElement(importing.Finalizer))
		})

		It("is found although the annotation that names it says what cannot be a name", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster := f.ClusterWith(ctx, namespace, "misnamed", []byte("none"), importing.Selected)
			Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(HaveLen(1))
			record := recordOf(ctx, cluster)
			misname := func() {
				GinkgoHelper()
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
					importing.SetAnnotation(o, importing.RecordKey, strategy+"/tenant-a/prod-capi")
				})
			}
			misname()
			Eventually(func() string { return importing.Current(ctx, f.Client, cluster).Annotations[importing.RecordKey] }).
				Should(Equal(strategy + "/" + record.GetName()))

			Expect(f.Manager.Stop()).To(Succeed())
			misname()
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
		})

		if strategy == "v3" {
			// Shards do not see each other's records, and choose names at random.
			It("is made under another name when the one that was written ahead is that of another cluster's", func(ctx context.Context) {
				f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
				first, taken := imported(ctx, "first")
				second := f.ClusterWith(ctx, namespace, "second", []byte("none"), importing.Selected, func(c *clusterv1.Cluster) {
					c.Finalizers = []string{importing.Finalizer}
					importing.SetAnnotation(c, importing.RecordKey, strategy+"/"+taken.GetName())
				})
				Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, second) }).Should(HaveLen(1))
				Expect(recordOf(ctx, second).GetName()).NotTo(Equal(taken.GetName()))
				Expect(importing.Current(ctx, f.Client, second).Annotations).To(HaveKeyWithValue(importing.RecordKey, strategy+"/"+recordOf(ctx, second).GetName()))
				Expect(importing.Current(ctx, f.Client, taken).GetLabels()).To(HaveKeyWithValue(importing.UIDLabel, string(first.UID)))
				Expect(recordOf(ctx, first).GetUID()).To(Equal(taken.GetUID()))

				By("nor is that let go for the sake of a cluster that names it, before its own has learned that it was deleted")
				pause := func(paused bool) {
					f.Patch(ctx, importing.Current(ctx, f.Client, first), func(client.Object) { first.Spec.Paused = &paused })
				}
				pause(true)
				Consistently(f.Reason(ctx, first)).Should(Equal("True/Imported"), "a pause does not show while all is well")
				Expect(f.Client.Delete(ctx, taken)).To(Succeed())
				third := f.ClusterWith(ctx, namespace, "third", []byte("none"), importing.Selected, func(c *clusterv1.Cluster) {
					c.Finalizers = []string{importing.Finalizer}
					importing.SetAnnotation(c, importing.RecordKey, strategy+"/"+taken.GetName())
				})
				Eventually(f.Reason(ctx, third)).Should(Equal("False/RancherClusterTerminating"))
				Consistently(func() []string { return importing.Current(ctx, f.Client, taken).GetFinalizers() }).Should(ContainElement(importing.Finalizer))
				pause(false)
				Eventually(func() map[string]string { return importing.Current(ctx, f.Client, first).Annotations }).
					Should(HaveKeyWithValue(importing.ImportedKey, "true"))
			})

			It("without its namespace is not let go by a cluster of the same name elsewhere", func(ctx context.Context) {
				f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
				cluster, record := imported(ctx, "namesake")
				namesake := f.ClusterWith(ctx, f.Namespace(ctx, nil), "namesake", []byte("none"))
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(client.Object) { cluster.Spec.Paused = new(true) })
				strip(ctx, record, importing.OwnerNSLabel)
				Expect(f.Client.Delete(ctx, record)).To(Succeed())
				f.Patch(ctx, importing.Current(ctx, f.Client, namesake), func(o client.Object) { importing.SetAnnotation(o, "example.com/wakes", "it") })
				Consistently(func() []string { return importing.Current(ctx, f.Client, record).GetFinalizers() }).Should(ContainElement(importing.Finalizer))
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(client.Object) { cluster.Spec.Paused = new(false) })
				Eventually(func() map[string]string { return importing.Current(ctx, f.Client, cluster).Annotations }).
					Should(HaveKeyWithValue(importing.ImportedKey, "true"))
				Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
				Consistently(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(BeEmpty())
			})
			return
		}
		DescribeTable("stays imported when it is the v3 Cluster behind it that loses", func(ctx context.Context, name string, spoil func(client.Object)) {
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, name)
			behind := &managementv3.Cluster{}
			behind.Name = importing.InternalName(record)
			before := len(f.Requests())
			f.Patch(ctx, importing.Current(ctx, f.Client, behind), spoil)
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, behind).Labels }).Should(HaveKey(importing.OwnedLabel))
			Consistently(f.K(ctx).Get(behind)).WithTimeout(importing.Quiet).Should(Succeed())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(importing.Current(ctx, f.Client, behind).DeletionTimestamp).To(BeNil())
			for _, request := range f.Requests()[before:] {
				Expect(request.Verb).NotTo(Equal("delete"), request.RequestURI)
			}
			end(ctx, cluster)
		},
			Entry("the label by which it is watched", "watched", func(o client.Object) {
				found := o.GetLabels()
				delete(found, importing.OwnedLabel)
				o.SetLabels(found)
			}),
			Entry("the annotation by which it is told from a record", "administrated", func(o client.Object) {
				found := o.GetAnnotations()
				delete(found, "provisioning.cattle.io/administrated")
				o.SetAnnotations(found)
			}),
		)
	})
}
