package import_test

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: somebody takes off a record what it is known by. The record is what users may edit in Rancher.
var _ = Describe("A record that loses its labels", func() {
	for _, strategy := range strategies() {
		describeLostLabels(strategy)
	}
})

const watchKey = "cluster.x-k8s.io/watch-filter"

func describeLostLabels(strategy string) {
	labels := []string{ownedLabel, ownerLabel, ownerNSLabel, uidLabel}
	var (
		f         *fixture
		namespace string
	)
	strip := func(ctx context.Context, record client.Object, keys ...string) {
		GinkgoHelper()
		f.patch(ctx, current(ctx, f, record), func(o client.Object) {
			found := o.GetLabels()
			maps.DeleteFunc(found, func(key, _ string) bool { return slices.Contains(keys, key) })
			o.SetLabels(found)
		})
	}
	recordOf := func(ctx context.Context, cluster *clusterv1.Cluster) client.Object {
		GinkgoHelper()
		records := f.look(ctx).records(strategy, cluster)
		Expect(records).To(HaveLen(1))
		return records[0]
	}
	imported := func(ctx context.Context, name string) (*clusterv1.Cluster, client.Object) {
		GinkgoHelper()
		cluster := f.cluster(ctx, namespace, name, selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		return cluster, recordOf(ctx, cluster)
	}
	// end deletes a cluster, whose agent nobody else would get.
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		f.expectNothingLeft(ctx, cluster)
	}

	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "labels-" + strategy, Audit: true})
			namespace = f.namespace(ctx, nil)
		})
		AfterEach(func(ctx context.Context) { f.expectNoAgent(ctx) })

		It("gets the UID of its cluster back", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "prod")
			uid := record.GetUID()
			strip(ctx, record, uidLabel)
			Eventually(func() string { return current(ctx, f, record).GetLabels()[uidLabel] }).Should(Equal(string(cluster.UID)))
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(recordOf(ctx, cluster).GetUID()).To(Equal(uid))
			end(ctx, cluster)
		})

		DescribeTable("is let go when it was deleted in Rancher meanwhile, and not made again", func(ctx context.Context, name string, lost []string) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, name)
			Expect(f.manager.Stop()).To(Succeed())
			strip(ctx, record, lost...)
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			Consistently(f.gone(ctx, record)).Should(BeFalse())
			f.run(ctx, gate(strategy), "--sync-period=1h")
			Eventually(f.gone(ctx, record)).Should(BeTrue())
			Eventually(func() map[string]string { return current(ctx, f, cluster).Annotations }).Should(HaveKeyWithValue(importedKey, "true"))
			Consistently(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(BeEmpty())
			Expect(current(ctx, f, cluster).Finalizers).NotTo(ContainElement(finalizer))
		},
			Entry("without its UID", "no-uid", []string{uidLabel}),
			Entry("without any label", "no-labels", labels),
		)

		It("is let go when it is deleted in Rancher after its cluster lost the label that the instance goes by", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--sync-period=1h", "--watch-filter=a")
			cluster := f.cluster(ctx, namespace, "unwatched", selected, func(c *clusterv1.Cluster) { c.Labels[watchKey] = "a" })
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			record := recordOf(ctx, cluster)
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { delete(o.GetLabels(), watchKey) })
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			Eventually(f.gone(ctx, record)).Should(BeTrue())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Expect(current(ctx, f, cluster).Annotations).To(HaveKeyWithValue(importedKey, "true"))
			Expect(cluster.Annotations).NotTo(HaveKey(recordKey))
			Expect(cluster.Finalizers).NotTo(ContainElement(finalizer))
		})

		It("goes with its cluster all the same", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "leaves")
			Expect(f.manager.Stop()).To(Succeed())
			strip(ctx, record, labels...)
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.run(ctx, gate(strategy), "--sync-period=1h")
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			Eventually(f.gone(ctx, record)).Should(BeTrue())
		})

		It("is not taken for one that was removed, whatever annotation its cluster has meanwhile", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, "annotated")
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, importedKey, "true") })
			uid := record.GetUID()
			strip(ctx, record, ownedLabel)
			Eventually(func() map[string]string { return current(ctx, f, record).GetLabels() }).Should(HaveKey(ownedLabel))
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(recordOf(ctx, cluster).GetUID()).To(Equal(uid))

			By("but is when it was")
			Expect(f.manager.Stop()).To(Succeed())
			strip(ctx, record, ownedLabel)
			Expect(f.Client.Delete(ctx, record)).To(Succeed())
			f.run(ctx, gate(strategy), "--sync-period=1h")
			Eventually(f.gone(ctx, record)).Should(BeTrue())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
			Expect(current(ctx, f, cluster).Finalizers).NotTo(ContainElement(finalizer))
		})

		It("is found although the annotation that names it says what cannot be a name", func(ctx context.Context) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster := f.clusterWith(ctx, namespace, "misnamed", []byte("none"), selected)
			Eventually(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(HaveLen(1))
			record := recordOf(ctx, cluster)
			misname := func() {
				GinkgoHelper()
				f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, recordKey, strategy+"/tenant-a/prod-capi") })
			}
			misname()
			Eventually(func() string { return current(ctx, f, cluster).Annotations[recordKey] }).Should(Equal(strategy + "/" + record.GetName()))

			Expect(f.manager.Stop()).To(Succeed())
			misname()
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.run(ctx, gate(strategy), "--sync-period=1h")
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			Eventually(f.gone(ctx, record)).Should(BeTrue())
		})

		if strategy == "v3" {
			// Shards do not see each other's records, and choose names at random.
			It("is made under another name when the one that was written ahead is that of another cluster's", func(ctx context.Context) {
				f.run(ctx, gate(strategy), "--sync-period=1h")
				first, taken := imported(ctx, "first")
				second := f.clusterWith(ctx, namespace, "second", []byte("none"), selected, func(c *clusterv1.Cluster) {
					c.Finalizers = []string{finalizer}
					setAnnotation(c, recordKey, strategy+"/"+taken.GetName())
				})
				Eventually(func() []client.Object { return f.look(ctx).records(strategy, second) }).Should(HaveLen(1))
				Expect(recordOf(ctx, second).GetName()).NotTo(Equal(taken.GetName()))
				Expect(current(ctx, f, second).Annotations).To(HaveKeyWithValue(recordKey, strategy+"/"+recordOf(ctx, second).GetName()))
				Expect(current(ctx, f, taken).GetLabels()).To(HaveKeyWithValue(uidLabel, string(first.UID)))
				Expect(recordOf(ctx, first).GetUID()).To(Equal(taken.GetUID()))

				By("nor is that let go for the sake of a cluster that names it, before its own has learned that it was deleted")
				pause := func(paused bool) {
					f.patch(ctx, current(ctx, f, first), func(client.Object) { first.Spec.Paused = &paused })
				}
				pause(true)
				Consistently(f.reason(ctx, first)).Should(Equal("True/Imported"), "a pause does not show while all is well")
				Expect(f.Client.Delete(ctx, taken)).To(Succeed())
				third := f.clusterWith(ctx, namespace, "third", []byte("none"), selected, func(c *clusterv1.Cluster) {
					c.Finalizers = []string{finalizer}
					setAnnotation(c, recordKey, strategy+"/"+taken.GetName())
				})
				Eventually(f.reason(ctx, third)).Should(Equal("False/RecordTerminating"))
				Consistently(func() []string { return current(ctx, f, taken).GetFinalizers() }).Should(ContainElement(finalizer))
				pause(false)
				Eventually(func() map[string]string { return current(ctx, f, first).Annotations }).Should(HaveKeyWithValue(importedKey, "true"))
			})

			It("without its namespace is not let go by a cluster of the same name elsewhere", func(ctx context.Context) {
				f.run(ctx, gate(strategy), "--sync-period=1h")
				cluster, record := imported(ctx, "namesake")
				namesake := f.clusterWith(ctx, f.namespace(ctx, nil), "namesake", []byte("none"))
				f.patch(ctx, current(ctx, f, cluster), func(client.Object) { cluster.Spec.Paused = new(true) })
				strip(ctx, record, ownerNSLabel)
				Expect(f.Client.Delete(ctx, record)).To(Succeed())
				f.patch(ctx, current(ctx, f, namesake), func(o client.Object) { setAnnotation(o, "example.com/wakes", "it") })
				Consistently(func() []string { return current(ctx, f, record).GetFinalizers() }).Should(ContainElement(finalizer))
				f.patch(ctx, current(ctx, f, cluster), func(client.Object) { cluster.Spec.Paused = new(false) })
				Eventually(func() map[string]string { return current(ctx, f, cluster).Annotations }).Should(HaveKeyWithValue(importedKey, "true"))
				Eventually(f.gone(ctx, record)).Should(BeTrue())
				Consistently(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(BeEmpty())
			})
			return
		}
		DescribeTable("stays imported when it is the v3 Cluster behind it that loses", func(ctx context.Context, name string, spoil func(client.Object)) {
			f.run(ctx, gate(strategy), "--sync-period=1h")
			cluster, record := imported(ctx, name)
			behind := &managementv3.Cluster{}
			behind.Name = internalName(record)
			before := len(f.requests())
			f.patch(ctx, current(ctx, f, behind), spoil)
			Eventually(func() map[string]string { return current(ctx, f, behind).Labels }).Should(HaveKey(ownedLabel))
			Consistently(f.gone(ctx, behind)).WithTimeout(reaction).Should(BeFalse())
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(current(ctx, f, behind).DeletionTimestamp).To(BeNil())
			for _, request := range f.requests()[before:] {
				Expect(request.Verb).NotTo(Equal("delete"), request.RequestURI)
			}
			end(ctx, cluster)
		},
			Entry("the label by which it is watched", "watched", func(o client.Object) {
				found := o.GetLabels()
				delete(found, ownedLabel)
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
