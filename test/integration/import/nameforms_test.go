package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Tenants who know nothing of each other call their clusters alike.
var _ = Describe("Display names with the namespace", Ordered, func() {
	var f *fixture
	BeforeAll(func(ctx context.Context) { f = newFixture(ctx, stage.Options{Name: "nameforms"}) })
	record := func(ctx context.Context, cluster *clusterv1.Cluster) *managementv3.Cluster {
		records := f.V3Records(ctx, cluster)
		if len(records) != 1 {
			return &managementv3.Cluster{}
		}
		return &records[0]
	}
	shown := func(ctx context.Context, cluster *clusterv1.Cluster) func() string {
		return func() string { return record(ctx, cluster).Spec.DisplayName }
	}
	begin := func(ctx context.Context, args ...string) {
		GinkgoHelper()
		if f.Manager != nil {
			Expect(f.Manager.Stop()).To(Succeed())
		}
		f.run(ctx, append([]string{importing.Gate("v3"), "--sync-period=1h"}, args...)...)
	}
	// renamedInRancher has Archelon take a name back.
	renamedInRancher := func(ctx context.Context, cluster *clusterv1.Cluster, back string) {
		GinkgoHelper()
		f.Patch(ctx, record(ctx, cluster), func(o client.Object) {
			if cluster, ok := o.(*managementv3.Cluster); ok {
				cluster.Spec.DisplayName = "somebodys-choice"
			}
		})
		Eventually(shown(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal(back))
	}

	It("are for new imports, and nothing that is imported changes its name", func(ctx context.Context) {
		first, second := f.Namespace(ctx, nil), f.Namespace(ctx, nil)
		begin(ctx)
		plain := f.Cluster(ctx, first, "prod", importing.Selected)
		Eventually(shown(ctx, plain)).Should(Equal("prod"))
		Eventually(f.Reason(ctx, plain)).Should(Equal("True/Imported"))

		By("choosing the other form")
		begin(ctx, "--display-name=NamespaceName")
		whole := f.Cluster(ctx, second, "prod", importing.Selected)
		Eventually(shown(ctx, whole)).Should(Equal(second + "-prod"))
		renamedInRancher(ctx, plain, "prod")

		By("choosing the first one again")
		begin(ctx)
		renamedInRancher(ctx, whole, second+"-prod")
		rename := func(name string) {
			GinkgoHelper()
			f.Patch(ctx, importing.Current(ctx, f.Client, whole), func(o client.Object) { importing.SetAnnotation(o, "archelon.io/display-name", name) })
		}
		rename("green")
		Eventually(shown(ctx, whole)).WithTimeout(importing.Reaction).Should(Equal("green"))
		rename("")
		Eventually(shown(ctx, whole)).WithTimeout(importing.Reaction).Should(Equal(second + "-prod"))
		Expect(shown(ctx, plain)()).To(Equal("prod"))
		for _, cluster := range []*clusterv1.Cluster{plain, whole} {
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.ExpectNothingLeft(ctx, cluster)
		}
	})
})
