package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/importing"
)

// manualDelivery takes a cluster through its life whose agent is installed by others, with the manifest in its Secret.
// What that Secret follows is in the suite of the import.
func manualDelivery(stageFixture func() *fixture) {
	var (
		f       *fixture
		cluster *clusterv1.Cluster
		earlier int // requests of earlier imports to the workload cluster
	)
	requests := func() int {
		GinkgoHelper()
		events, err := f.Lane.Plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		count := 0
		for i := range events {
			if strings.HasPrefix(events[i].UserAgent, "archelon") {
				count++
			}
		}
		return count
	}
	BeforeAll(func(ctx context.Context) {
		f = stageFixture()
		earlier = requests()
		cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "closed", importing.Selected, importing.ManualDelivery)
	})

	It("has the manifest in a Secret, and installs nothing", func(ctx context.Context) {
		Eventually(f.ReasonIn(ctx, cluster, "AgentManifest")).Should(Equal("True/ManifestReady"))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
		Consistently(f.Agent).WithArguments(ctx).Should(BeNil())
	})

	It("is connected by the manifest, which stays as it is", func(ctx context.Context) {
		manifest := f.Manifest(ctx, cluster)()
		f.Lane.Apply(ctx, manifest)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Consistently(f.Manifest(ctx, cluster)).Should(Equal(manifest))
	})

	It("is connected again by the same manifest when the agent was deleted", func(ctx context.Context) {
		Expect(f.Lane.Client.Delete(ctx, f.Agent(ctx))).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
		f.Lane.Apply(ctx, f.Manifest(ctx, cluster)())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(requests()).To(Equal(earlier))
	})

	It("ends with its Rancher cluster, its agent and the Secret", func(ctx context.Context) {
		f.ExpectNoSecrets()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
		Expect(f.Manifest(ctx, cluster)()).To(BeEmpty())
	})
}
