package edge_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
)

// Scenario: an administrator goes back to Rancher Turtles by the commands of the page. Rancher is in the management
// cluster, and serves another management cluster as well.
var _ = Describe("The way back to Rancher Turtles", Label("nightly"), func() {
	It("leaves Rancher clusters that Turtles finds and Archelon does not take back", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		workload := rancher.workload(ctx)
		rancher.create(ctx, apart.Namespace(system))
		site := &management{Cluster: &apart.Cluster{ControlPlane: rancher.Management, Client: rancher.Client}, rancher: rancher, values: map[string]any{
			"features":  map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
			"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
		}}
		stop := site.run(ctx)
		cluster := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := func() []managementv3.Cluster {
			GinkgoHelper()
			list := &managementv3.ClusterList{}
			Expect(rancher.Client.List(ctx, list, client.MatchingLabels{apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one"})).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		foreign := &managementv3.Cluster{}
		foreign.Name, foreign.Labels = "c-zzzzz", map[string]string{apart.OriginLabel: "another", uidLabel: "of-another"}
		Expect(rancher.Client.Create(ctx, foreign)).To(Succeed())
		agent := apart.AgentIn(ctx, workload)

		By("uninstalling Archelon")
		Expect(stop()).To(Succeed())
		opts := uninstallation()
		opts.RancherKubeconfig = ""
		Expect(uninstall.Run(ctx, rancher.Management.Config, opts, GinkgoWriter)).To(Succeed())

		By("running the commands of the page")
		apart.Run(ctx, rancher.Management, apart.Commands("docs/operations/turtles.md", "## Moving back", "xargs"))
		Expect(records()).To(HaveExactElements(And(
			HaveField("UID", first[0].UID), HaveField("DeletionTimestamp", BeNil()),
			HaveField("Finalizers", Not(ContainElement(apart.Finalizer))), HaveField("Labels", Not(HaveKey(uidLabel))),
		)))
		Expect(rancher.K(ctx).Object(cluster)()).To(And(
			HaveField("Finalizers", Not(ContainElement(apart.Finalizer))), HaveField("Annotations", Not(HaveKey("archelon.io/rancher-cluster"))),
		))
		Expect(rancher.K(ctx).Object(foreign)()).To(HaveField("Labels", HaveKeyWithValue(uidLabel, "of-another")), "it is of another management cluster")
		Expect(apart.AgentIn(ctx, workload)).To(Equal(agent))

		By("installing Archelon again, where the namespace is assigned to Turtles")
		namespace := apart.Namespace("team-a")
		Expect(rancher.Client.Patch(ctx, namespace, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"archelon.io/managed-by":"rancher-turtles"}}}`)))).To(Succeed())
		site.run(ctx)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("False/AssignedToTurtles"))
		Consistently(records).Should(HaveExactElements(And(
			HaveField("UID", first[0].UID), HaveField("Finalizers", Not(ContainElement(apart.Finalizer))),
		)))
		Expect(rancher.K(ctx).Object(&clusterv1.Cluster{ObjectMeta: cluster.ObjectMeta})()).To(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
	})
})
