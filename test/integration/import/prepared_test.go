package import_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario: Rancher starts while clusters wait for it, and has all of them registered before it is ready for their
// agents. A real one never connects an agent that registers then.
var _ = Describe("A Rancher that has just started", func() {
	const prepares = 4 * time.Second
	for _, strategy := range importing.Strategies() {
		It("is given the time to prepare, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "prepared-" + strategy, Rancher: func(o *rancher.Options) {
				o.Logger, o.Timings.Migrate = GinkgoLogr, prepares
			}})
			f.run(ctx, importing.Gate(strategy))
			cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			written := func(resource string) time.Time {
				at := slices.IndexFunc(f.workloadWrites(), func(e auditv1.Event) bool { return e.ObjectRef.Resource == resource })
				Expect(at).To(BeNumerically(">=", 0), resource)
				return f.workloadWrites()[at].RequestReceivedTimestamp.Time
			}
			Expect(written("deployments")).To(BeTemporally(">", written("serviceaccounts").Add(prepares/2)),
				"everything but the Deployment is installed while Rancher prepares")
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, cluster)
		})
	}
})
