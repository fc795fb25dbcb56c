package edge_test

import (
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/importing"
)

var _ = Describe("Annotations for Fleet, where Rancher's cluster is another one", func() {
	It("are those that the Rancher side allows", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		workload := rancher.workload(ctx)
		(&importing.Fixture{Stage: rancher.Stage}).StartFleet(ctx)
		site := newManagement(ctx, rancher, "site")
		rancher.create(ctx, apart.Namespace(system))
		apart.Apply(ctx, rancher.Client, apart.Render(ctx, "edge", map[string]any{
			"role": "rancher-side", "managementCluster": map[string]any{"uid": site.UID},
			"import": map[string]any{"propagatedAnnotations": []string{"example.com/*", "a.io/cost"}},
		}))
		config := rancher.account(ctx, site.UID, "first")
		site.connect(ctx, config)
		site.values = values()
		site.values["import"] = map[string]any{"propagatedAnnotations": []string{"example.com/*", "a.io/*"}}
		DeferCleanup(site.run(ctx))

		cluster := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		annotate := func(annotations map[string]string) {
			GinkgoHelper()
			Eventually(site.K(ctx).Update(cluster, func() { maps.Copy(cluster.Annotations, annotations) })).Should(Succeed())
		}
		annotate(map[string]string{"example.com/region": "eu", "a.io/cost": "1"})
		record := rancher.records(ctx, site, cluster)[0]
		fleet := importing.FleetCluster(record.Spec.FleetWorkspaceName, record.Name)
		Eventually(rancher.K(ctx).Object(fleet)).Should(HaveField("GetAnnotations()", And(
			HaveKeyWithValue("example.com/region", "eu"), HaveKeyWithValue("a.io/cost", "1"),
		)))

		By("allowing more in the management cluster than in Rancher's")
		annotate(map[string]string{"a.io/other": "1"})
		Eventually(site.Reason(ctx, cluster)).Should(Equal("False/RancherClusterRejected"))
		Expect(rancher.Client.Get(ctx, client.ObjectKeyFromObject(&record), &record)).To(Succeed())
		Expect(record.Annotations).NotTo(HaveKey("a.io/other"))

		By("writing annotations with the credential of the management cluster")
		as, err := client.New(config, client.Options{Scheme: rancher.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		write := func(patch string) error {
			return as.Patch(ctx, record.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		}
		byOthers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"b.io/of-others":""}}}`))
		Expect(rancher.Client.Patch(ctx, record.DeepCopy(), byOthers)).To(Succeed())
		for _, refused := range []string{
			`{"metadata":{"annotations":{"b.io/a":""}}}`, `{"metadata":{"annotations":{"b.io/of-others":"1"}}}`, `{"metadata":{"annotations":{"a":"1"}}}`,
			`{"metadata":{"annotations":{"a.io/costs":"1"}}}`, `{"metadata":{"annotations":{"exampleXcom/a":"1"}}}`,
		} {
			Expect(write(refused)).To(Satisfy(apierrors.IsForbidden), refused)
		}
		for _, admitted := range []string{
			`{"metadata":{"annotations":{"example.com/a":"1","archelon.io/a":"1","field.cattle.io/a":"1"}}}`,
			`{"metadata":{"annotations":{"b.io/of-others":null}}}`, `{"metadata":{"labels":{"team":"blue"}}}`,
		} {
			Expect(write(admitted)).To(Succeed(), admitted)
		}
	})
})
