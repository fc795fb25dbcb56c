package hostclaim_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

var _ = Describe("A manager whose CRD of HostClaims is replaced", Ordered, func() {
	var s *stage.Stage
	var m *stage.Manager

	BeforeAll(func(ctx SpecContext) {
		program, err := stage.BuildManager(ctx, GinkgoT().TempDir(), false)
		Expect(err).NotTo(HaveOccurred())
		s, err = stage.Start(ctx, stage.Options{Name: "crd-replaced"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
		crds, err := env.HostClaimCRDs(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, err = envtest.InstallCRDs(s.Management.Config, envtest.CRDInstallOptions{CRDs: crds})
		Expect(err).NotTo(HaveOccurred())
		m, err = s.StartManager(ctx, program, GinkgoWriter, "--feature-gates=host-claim=true")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(m.Stop()).To(Succeed()) })
		Eventually(m.Ready).WithContext(ctx).Should(Succeed())
	})

	It("ends, says why in an Event and its log, and waits for the right CRD when it is started again", func(ctx SpecContext) {
		ours, w := hostClaimCRD(ctx), &world{plane: s.Management}
		Expect(w.replaceCRD(ctx, foreign(ours))).To(Succeed())
		Eventually(m.Logs).Should(ContainSubstring("A CRD is not the one any more that this process works with"))
		Eventually(func() error { return m.Ready(ctx) }).Should(MatchError(ContainSubstring("crds-hostclaim-baremetal")))
		Eventually(func() string { return eventsOf(ctx, s.Client, "CRDReplaced") }).
			Should(ContainSubstring("hostclaims.metal3.io is another one than that of Archelon"))

		Expect(w.replaceCRD(ctx, ours)).To(Succeed())
		Eventually(m.Ready).WithContext(ctx).Should(Succeed())
	})
})

// eventsOf returns the messages of Events with a reason that are about Leases.
func eventsOf(ctx context.Context, c client.Reader, reason string) string {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(c.List(ctx, events, client.InNamespace(stage.SystemNamespace))).To(Succeed())
	var messages []string
	for i := range events.Items {
		if event := &events.Items[i]; event.Reason == reason && event.InvolvedObject.Kind == "Lease" {
			messages = append(messages, event.Message)
		}
	}
	return strings.Join(messages, "\n")
}
