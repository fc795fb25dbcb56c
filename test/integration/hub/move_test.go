package hub_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
)

// Scenario: clusterctl moves a CAPI Cluster from one registered management cluster to another, while the hub runs.
var _ = Describe("A CAPI Cluster that moves between management clusters", Label("nightly"), func() {
	It("keeps its Rancher cluster and its agent", func(ctx SpecContext) {
		rancher := newHub(ctx)
		east, west := newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		rancher.run(ctx)
		rancher.register(ctx, "east", east.kubeconfig)
		rancher.register(ctx, "west", west.kubeconfig)
		cluster := east.Create(ctx, "team-a", "one", west.ControlPlane)
		Eventually(east.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(engaged("west")).Should(BeEquivalentTo(1))
		records := func() []managementv3.Cluster {
			GinkgoHelper()
			list := &managementv3.ClusterList{}
			Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"})).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		same := HaveExactElements(And(HaveField("UID", first[0].UID), HaveField("DeletionTimestamp", BeNil())))
		agent := apart.AgentIn(ctx, west.ControlPlane)

		moved := apart.Move(ctx, east.Cluster, west.Cluster, cluster)
		Eventually(west.Reason(ctx, moved)).Should(Equal("False/ForeignRecord"))
		Consistently(records).Should(same)

		By("going on once it is attached")
		apart.Attach(ctx, rancher.Management, west.Cluster, "team-a")
		Eventually(west.Reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, west, moved)).To(same)
		Expect(records()).To(same)
		Expect(apart.AgentIn(ctx, west.ControlPlane)).To(Equal(agent))

		By("and ends with the CAPI Cluster")
		Expect(west.Client.Delete(ctx, moved)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})
})

// Scenario: Archelon, Rancher and CAPI were in one cluster. CAPI moves into another one, which is registered then.
var _ = Describe("An ordinary installation that becomes a hub", Label("nightly"), func() {
	It("keeps its Rancher clusters and their agents", func(ctx SpecContext) {
		rancher := newHub(ctx)
		east, shop := newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "shop")
		before := rancher.plain()
		_, stop := before.Run(ctx, map[string]any{
			"features":  map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
			"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
		}, nil)
		cluster := before.Create(ctx, "team-a", "one", shop.ControlPlane)
		Eventually(before.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		list := &managementv3.ClusterList{}
		Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		agent := apart.AgentIn(ctx, shop.ControlPlane)
		Expect(stop()).To(Succeed())

		moved := apart.Move(ctx, before, east.Cluster, cluster)
		rancher.run(ctx)
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(east.Reason(ctx, moved)).Should(Equal("False/ForeignRecord"))
		apart.Attach(ctx, rancher.Management, east.Cluster, "team-a")
		Eventually(east.Reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, east, moved)).To(HaveExactElements(HaveField("UID", list.Items[0].UID)))
		Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(apart.AgentIn(ctx, shop.ControlPlane)).To(Equal(agent))
	})
})
