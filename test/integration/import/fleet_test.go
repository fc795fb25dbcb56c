package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/archelon-io/archelon/test/importing"
)

// With gate fleet the workload cluster of an imported Cluster is watched.
var _ = Describe("Fleet", func() {
	It("has an agent that was deleted installed again in seconds, before Rancher's word counts", func(ctx context.Context) {
		f := newRepairFixture(ctx, "fleet-workload")
		// A disconnection that Rancher reports means nothing for ten minutes.
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true,fleet=true", "--agent-disconnect-grace=10m")
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", func(c *clusterv1.Cluster) { c.Labels = map[string]string{importing.ImportLabel: "true"} })
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(func() string {
			if condition := conditions.Get(importing.Current(ctx, f.Client, cluster), "FleetEngaged"); condition != nil {
				return string(condition.Status) + "/" + condition.Reason
			}
			return "none"
		}).Should(Equal("True/Engaged"))
		id := f.V3Records(ctx, cluster)[0].Name
		Eventually(func() int { return f.Rancher.Reapplies(id) }).Should(Equal(1))
		before := f.Agent(ctx)
		Expect(before).NotTo(BeNil())
		Expect(f.Lane.Client.Delete(ctx, before)).To(Succeed())
		Eventually(func() bool {
			now := f.Agent(ctx)
			return now != nil && now.UID != before.UID
		}).Should(BeTrue())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		f.ExpectNoSecrets()
	})
})
