package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// withTurtles is a Rancher that has Rancher Turtles for a feature.
type withTurtles interface {
	WithTurtles(ctx context.Context, on bool) error
}

// A stock Rancher brings Rancher Turtles, which provides CAPI. The suite of the import has all that happens between the
// two; this is to be the same with a real Rancher, which connects nothing before it takes Turtles for installed.
var _ = Describe("Turtles, parked", Label("long", "rancher", "programs"), Ordered, func() {
	var (
		f       *fixture
		cluster *clusterv1.Cluster
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "parked", Audit: true})
		if rancher, ok := f.Rancher.(withTurtles); ok {
			Expect(rancher.WithTurtles(ctx, true)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(rancher.WithTurtles(ctx, false)).To(Succeed()) })
		}
		lease := f.TurtlesAtWork(ctx)
		f.Patch(ctx, lease, func(client.Object) { lease.Spec.LeaseDurationSeconds = new(int32(3600)) })
		cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
	})

	It("leaves alone what the importer of Turtles may import", func(ctx context.Context) {
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TurtlesActive"))
		Expect(f.V3Records(ctx, cluster)).To(BeEmpty())
	})

	Describe("when it is parked", Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--turtles-parked")
		})

		It("imports and connects a cluster", func(ctx context.Context) {
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.V3Records(ctx, cluster)).To(HaveLen(1))
		})

		It("ends with its CAPI cluster", func(ctx context.Context) {
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
			f.ExpectLawful()
		})
	})
})
