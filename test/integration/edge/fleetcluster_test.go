package edge_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/importing"
)

var _ = Describe("A Fleet Cluster in Rancher's cluster, which is another one", func() {
	It("has the labels of the ClusterClass, and those of others cannot be labelled", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		workload := rancher.workload(ctx)
		(&importing.Fixture{Stage: rancher.Stage}).StartFleet(ctx)
		site := newManagement(ctx, rancher, "site")
		labelled := map[string]any{"clusterClassLabels": true}
		rancher.create(ctx, apart.Namespace(system))
		apart.Apply(ctx, rancher.Client, apart.Render(ctx, "edge", map[string]any{
			"role": "rancher-side", "managementCluster": map[string]any{"uid": site.UID}, "import": labelled,
		}))
		config := rancher.account(ctx, site.UID, "first")
		site.connect(ctx, config)
		site.values = values()
		site.values["import"] = labelled
		DeferCleanup(site.run(ctx))

		cluster := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(site.K(ctx).Update(cluster, func() {
			cluster.Spec.Topology = clusterv1.Topology{
				ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0",
			}
		})).Should(Succeed())
		record := rancher.records(ctx, site, cluster)[0]
		fleet := importing.FleetCluster(record.Spec.FleetWorkspaceName, record.Name)
		Eventually(rancher.K(ctx).Object(fleet)).Should(HaveField("GetLabels()", And(
			HaveKeyWithValue("cluster-api.cattle.io/clusterclass-name", "quick"),
			HaveKeyWithValue("cluster-api.cattle.io/clusterclass-namespace", "team-a"),
		)))

		By("labelling a Fleet Cluster of others with the credential of the management cluster")
		foreign := importing.FleetCluster(fleet.GetNamespace(), "foreign")
		Expect(rancher.Client.Create(ctx, foreign)).To(Succeed())
		as, err := client.New(rest.CopyConfig(config), client.Options{Scheme: rancher.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		forge := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"cluster-api.cattle.io/clusterclass-name":"quick"}}}`))
		Eventually(func() error { return as.Patch(ctx, foreign.DeepCopy(), forge, client.DryRunAll) }).
			Should(Satisfy(apierrors.IsForbidden))
		Expect(as.Patch(ctx, fleet.DeepCopy(), forge, client.DryRunAll)).To(Succeed())
	})
})
