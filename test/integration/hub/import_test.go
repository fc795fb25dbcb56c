package hub_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("One Archelon for two management clusters", Ordered, func() {
	var (
		rancher    *hub
		east, west *management
		ofEast     *clusterv1.Cluster
		ofWest     *clusterv1.Cluster
		watching   []string
	)

	BeforeAll(func(ctx SpecContext) {
		rancher = newHub(ctx)
		east, west = newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		rancher.run(ctx)
	})

	It("imports what is in a management cluster once that is registered", func(ctx SpecContext) {
		ofEast = east.cluster(ctx, "team-a", "one", west.ControlPlane)
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(east.reason(ctx, ofEast)).Should(Equal("True/Imported"))
		records := rancher.records(ctx, east, ofEast)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).To(ContainElement(finalizer))
		Expect(rancher.secret(ctx, "east").Annotations).To(HaveKeyWithValue(uidAnnotation, east.uid))
		Eventually(rancher.reasons(ctx, "east")).Should(ConsistOf("Engaged"))
		Expect(engaged("east")()).To(BeEquivalentTo(1))
		watching = watches(rancher.Management, hubUser)
	})

	It("imports a cluster of the same namespace and name from another one", func(ctx SpecContext) {
		ofWest = west.cluster(ctx, "team-a", "one", east.ControlPlane)
		rancher.register(ctx, "west", west.kubeconfig)
		Eventually(west.reason(ctx, ofWest)).Should(Equal("True/Imported"))
		first, second := rancher.records(ctx, east, ofEast), rancher.records(ctx, west, ofWest)
		Expect(first).To(HaveLen(1))
		Expect(second).To(HaveLen(1))
		Expect(second[0].UID).NotTo(Equal(first[0].UID))
		Expect(first[0].Spec.DisplayName).To(Equal("one"))
		Expect(second[0].Spec.DisplayName).To(Equal("one-west"))
		Consistently(east.reason(ctx, ofEast)).Should(Equal("True/Imported"))
	})

	It("watches Rancher's cluster for two as for one", func() {
		Expect(watching).To(ContainElement(HavePrefix("/apis/management.cattle.io/v3/clusters?")))
		Expect(watches(rancher.Management, hubUser)).To(Equal(watching))
	})

	It("writes nothing once all is settled", func(ctx SpecContext) {
		all := func() []string {
			return slices.Concat(written(rancher.Management, hubUser), written(east.ControlPlane, siteUser), written(west.ControlPlane, siteUser))
		}
		before := all()
		for _, m := range []*management{east, west} {
			touched := ofEast.DeepCopy()
			Expect(m.client.Get(ctx, client.ObjectKeyFromObject(ofEast), touched)).To(Succeed())
			untouched := touched.DeepCopy()
			touched.Annotations["example.com/touched"] = "true"
			Expect(m.client.Patch(ctx, touched, client.MergeFrom(untouched))).To(Succeed())
		}
		Consistently(all).Should(Equal(before))
	})

	It("keeps a CAPI Cluster whose Rancher cluster is deleted, until it is wanted again", func(ctx SpecContext) {
		former := rancher.records(ctx, west, ofWest)
		Expect(rancher.Client.Delete(ctx, &former[0])).To(Succeed())
		Eventually(func() map[string]string {
			Expect(west.client.Get(ctx, client.ObjectKeyFromObject(ofWest), ofWest)).To(Succeed())
			return ofWest.Annotations
		}).Should(HaveKey(importedAnnotation))
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		west.change(ctx, ofWest, func() { delete(ofWest.Annotations, importedAnnotation) })
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(HaveLen(1))
		Expect(rancher.records(ctx, west, ofWest)[0].UID).NotTo(Equal(former[0].UID))
		Expect(rancher.records(ctx, east, ofEast)).To(HaveLen(1))
	})

	It("lets go of a CAPI Cluster whose label says so, and takes it again", func(ctx SpecContext) {
		west.change(ctx, ofWest, func() { ofWest.Labels[importLabel] = "false" })
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		Eventually(func() []string {
			Expect(west.client.Get(ctx, client.ObjectKeyFromObject(ofWest), ofWest)).To(Succeed())
			return ofWest.Finalizers
		}).ShouldNot(ContainElement(finalizer))
		Expect(rancher.records(ctx, east, ofEast)).To(HaveLen(1))
		west.change(ctx, ofWest, func() { ofWest.Labels[importLabel] = "true" })
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(HaveLen(1))
	})

	It("takes the Rancher cluster along with a CAPI Cluster, and no other of its name", func(ctx SpecContext) {
		Expect(west.client.Delete(ctx, ofWest)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(west.client.Get(ctx, client.ObjectKeyFromObject(ofWest), &clusterv1.Cluster{}))
		}).Should(BeTrue())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		still := rancher.records(ctx, east, ofEast)
		Expect(still).To(HaveLen(1))
		Expect(still[0].DeletionTimestamp.IsZero()).To(BeTrue())
	})
})
