package hub_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/apart"
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
		ofEast = east.Create(ctx, "team-a", "one", west.ControlPlane)
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(east.Reason(ctx, ofEast)).Should(Equal("True/Imported"))
		records := rancher.records(ctx, east, ofEast)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).To(ContainElement(apart.Finalizer))
		Expect(rancher.secret(ctx, "east").Annotations).To(HaveKeyWithValue(uidAnnotation, east.UID))
		Eventually(rancher.reasons(ctx, "east")).Should(ConsistOf("Engaged"))
		Expect(engaged("east")()).To(BeEquivalentTo(1))
		watching = watches(rancher.Management, hubUser)
	})

	It("imports a cluster of the same namespace and name from another one", func(ctx SpecContext) {
		ofWest = west.Create(ctx, "team-a", "one", east.ControlPlane)
		rancher.register(ctx, "west", west.kubeconfig)
		Eventually(west.Reason(ctx, ofWest)).Should(Equal("True/Imported"))
		first, second := rancher.records(ctx, east, ofEast), rancher.records(ctx, west, ofWest)
		Expect(first).To(HaveLen(1))
		Expect(second).To(HaveLen(1))
		Expect(second[0].UID).NotTo(Equal(first[0].UID))
		Expect(first[0].Spec.DisplayName).To(Equal("one"))
		Expect(second[0].Spec.DisplayName).To(Equal("one-west"))
		Consistently(east.Reason(ctx, ofEast)).Should(Equal("True/Imported"))
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
			Eventually(m.K(ctx).Update(touched, func() { touched.Annotations["example.com/touched"] = "true" })).Should(Succeed())
		}
		Consistently(all).Should(Equal(before))
	})

	It("keeps a CAPI Cluster whose Rancher cluster is deleted, until it is wanted again", func(ctx SpecContext) {
		former := rancher.records(ctx, west, ofWest)
		Expect(rancher.Client.Delete(ctx, &former[0])).To(Succeed())
		Eventually(west.K(ctx).Object(ofWest)).Should(HaveField("Annotations", HaveKey(importedAnnotation)))
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		Eventually(west.K(ctx).Update(ofWest, func() { delete(ofWest.Annotations, importedAnnotation) })).Should(Succeed())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(HaveLen(1))
		Expect(rancher.records(ctx, west, ofWest)[0].UID).NotTo(Equal(former[0].UID))
		Expect(rancher.records(ctx, east, ofEast)).To(HaveLen(1))
	})

	It("lets go of a CAPI Cluster whose label says so, and takes it again", func(ctx SpecContext) {
		Eventually(west.K(ctx).Update(ofWest, func() { ofWest.Labels[apart.ImportLabel] = "false" })).Should(Succeed())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		Eventually(west.K(ctx).Object(ofWest)).Should(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
		Expect(rancher.records(ctx, east, ofEast)).To(HaveLen(1))
		Eventually(west.K(ctx).Update(ofWest, func() { ofWest.Labels[apart.ImportLabel] = "true" })).Should(Succeed())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(HaveLen(1))
	})

	It("takes the Rancher cluster along with a CAPI Cluster, and no other of its name", func(ctx SpecContext) {
		Expect(west.Client.Delete(ctx, ofWest)).To(Succeed())
		Eventually(west.K(ctx).Get(ofWest)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, west, ofWest) }).Should(BeEmpty())
		still := rancher.records(ctx, east, ofEast)
		Expect(still).To(HaveLen(1))
		Expect(still[0].DeletionTimestamp.IsZero()).To(BeTrue())
	})
})
