package import_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// With gate fleet the workload cluster of an imported Cluster is watched.
var _ = Describe("Fleet", func() {
	It("has an agent that was deleted installed again in seconds, before Rancher's word counts", func(ctx context.Context) {
		f := newRepairFixture(ctx, "fleet-workload")
		// A disconnection that Rancher reports means nothing for ten minutes.
		f.startManager(ctx, loud, "--feature-gates=managementv3-cluster=true,fleet=true", "--agent-disconnect-grace=10m")
		cluster := f.cluster(ctx, f.namespace(ctx, nil), "prod", func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} })
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(func() string {
			if condition := conditions.Get(current(ctx, f, cluster), "FleetEngaged"); condition != nil {
				return string(condition.Status) + "/" + condition.Reason
			}
			return "none"
		}).Should(Equal("True/Engaged"))
		id := f.v3Records(ctx, cluster)[0].Name
		Eventually(func() int { return f.Rancher.Reapplies(id) }).Should(Equal(1))
		before := f.agent(ctx)
		Expect(before).NotTo(BeNil())
		Expect(f.workloadClient.Delete(ctx, before)).To(Succeed())
		Eventually(func() bool {
			now := f.agent(ctx)
			return now != nil && now.UID != before.UID
		}).WithTimeout(10 * time.Second).Should(BeTrue())
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		expectNoSecrets(f)
	})
})
