package import_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario: Rancher starts while clusters wait for it, and has all of them registered before it is ready for their
// agents. A real one never connects an agent that registers then.
var _ = Describe("A Rancher that has just started", func() {
	for _, strategy := range importing.Strategies() {
		It("is given the time to prepare, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "prepared-" + strategy, Rancher: func(o *rancher.Options) {
				o.Logger, o.Timings.Migrate = GinkgoLogr, 2*time.Second
			}})
			f.run(ctx, importing.Gate(strategy))
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})
	}
})
