package edge_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
)

// Scenario: Archelon, Rancher and CAPI were in one cluster. CAPI moves into another one, and Archelon with it.
var _ = Describe("An ordinary installation that becomes one with Rancher elsewhere", Label("nightly"), func() {
	It("keeps its Rancher clusters and their agents", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		workload := rancher.workload(ctx)
		rancher.create(ctx, apart.Namespace(system))
		before := &management{Cluster: &apart.Cluster{ControlPlane: rancher.Management, Client: rancher.Client}, rancher: rancher, values: map[string]any{
			"features":  map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
			"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
		}}
		stop := before.run(ctx)
		cluster := before.Create(ctx, "team-a", "one", workload)
		Eventually(before.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		named := client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"}
		records := func() []managementv3.Cluster {
			list := &managementv3.ClusterList{}
			Expect(rancher.Client.List(ctx, list, named)).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		Expect(first[0].Labels).NotTo(HaveKey(apart.OriginLabel))
		agent := apart.AgentIn(ctx, workload)
		Expect(stop()).To(Succeed())

		site := newManagement(ctx, rancher, "site")
		moved := apart.Move(ctx, before.Cluster, site.Cluster, cluster)
		site.connect(ctx, rancher.admit(ctx, site.UID))
		site.run(ctx)

		By("waiting for a person, instead of importing it a second time")
		Eventually(site.Reason(ctx, moved)).Should(Equal("False/ForeignRancherCluster"))
		Consistently(records).Should(HaveExactElements(HaveField("UID", first[0].UID)))

		By("going on once it is attached")
		apart.Attach(ctx, rancher.Management, site.Cluster, "team-a")
		Eventually(site.Reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, site, moved)).To(HaveExactElements(HaveField("UID", first[0].UID)))
		Expect(records()).To(HaveLen(1))
		Expect(apart.AgentIn(ctx, workload)).To(Equal(agent))

		By("and ends with the CAPI Cluster")
		Expect(site.Client.Delete(ctx, moved)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})
})
