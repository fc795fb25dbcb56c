package import_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario: Rancher starts while clusters wait for it, and has all of them registered before it is ready for their agents. A real one never connects an
// agent that registers then.
var _ = Describe("A Rancher that has just started", func() {
	for _, strategy := range strategies() {
		It("is given the time to prepare, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "prepared-" + strategy, Rancher: func(o *rancher.Options) {
				o.Logger, o.Timings.Migrate = GinkgoLogr, 2*time.Second
			}})
			f.run(ctx, gate(strategy))
			cluster := f.cluster(ctx, f.namespace(ctx, nil), "prod", selected)
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.gone(ctx, cluster)).Should(BeTrue())
			f.expectNothingLeft(ctx, cluster)
		})
	}
})
