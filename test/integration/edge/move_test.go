package edge_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
)

// Scenario: clusterctl moves a CAPI Cluster to another management cluster. Archelon runs in both, for the same Rancher.
var _ = Describe("A CAPI Cluster that moves between management clusters", Label("nightly"), func() {
	It("keeps its Rancher cluster and its agent", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		workload := rancher.workload(ctx)
		east, west := newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		for _, m := range []*management{east, west} {
			m.connect(ctx, rancher.admitted(ctx, m.UID, "token-"+m.UID))
			m.run(ctx)
		}
		cluster := east.Create(ctx, "team-a", "one", workload)
		Eventually(east.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := func() []managementv3.Cluster {
			GinkgoHelper()
			list := &managementv3.ClusterList{}
			Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"})).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		same := HaveExactElements(And(HaveField("UID", first[0].UID), HaveField("DeletionTimestamp", BeNil())))
		agent := apart.AgentIn(ctx, workload)

		By("waiting until it is attached, instead of importing it a second time")
		moved := apart.Move(ctx, east.Cluster, west.Cluster, cluster)
		Eventually(west.Reason(ctx, moved)).Should(Equal("False/ForeignRancherCluster"))
		Consistently(records).Should(same)

		By("continuing once it is attached")
		apart.Attach(ctx, rancher.Management, west.Cluster, "team-a")
		Eventually(west.Reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, west, moved)).To(same)
		Expect(records()).To(same)
		Expect(apart.AgentIn(ctx, workload)).To(Equal(agent))

		By("deleting the Rancher cluster with the CAPI Cluster")
		Expect(west.Client.Delete(ctx, moved)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})
})
