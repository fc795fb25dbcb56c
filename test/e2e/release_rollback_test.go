package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Scenario: an isolated release is changed and goes back by a rollback. Its namespaces are the same all the while: Helm
// gives and takes rights as they were rendered, so with other namespaces it would be another matter.
var _ = Describe("An isolated release that is rolled back", Label("nightly"), Ordered, func() {
	var (
		r        = &releases{}
		release  helm.Release
		clusters []*clusterv1.Cluster
		before   map[string]string
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		release = r.release(ctx, "archelon", map[string]any{"namespaces": []any{watch1, watch2}})
		r.install(ctx, release)
		for i := range 6 {
			clusters = append(clusters, r.light(ctx, []string{watch1, watch2}[i%2], fmt.Sprint("cluster-", i), importing.Selected))
		}
		r.expectImported(ctx, clusters...)
		before = r.records(ctx)
		Expect(before).To(HaveLen(len(clusters)))
	})
	// expectUndisturbed asserts that an operation costs no agent its connection and no cluster its record, that the rights
	// are there afterwards, and that the instance works with them.
	expectUndisturbed := func(ctx context.Context, operate func()) {
		GinkgoHelper()
		lost := r.watchConnections(ctx, clusters)
		operate()
		Expect(lost()).To(BeEmpty(), "agents that were disconnected")
		Expect(r.records(ctx)).To(Equal(before))
		for _, namespace := range []string{watch1, watch2} {
			binding := importing.Current(ctx, r.Client, roleBindingIn(namespace))
			Expect(binding.DeletionTimestamp).To(BeNil())
			Expect(binding.Finalizers).To(ConsistOf("archelon.io/role-in-use"))
			late := r.light(ctx, namespace, "late", importing.Selected)
			r.expectImported(ctx, late)
			r.drop(ctx, late)
		}
		r.expectLawful(release)
	}

	It("keeps every record and every connection in an upgrade with other features, and in the rollback", func(ctx context.Context) {
		changed := release
		changed.Values = with(release.Values, map[string]any{
			"turtles": map[string]any{"adopt": true}, "metrics": map[string]any{"enabled": false}, "import": map[string]any{"concurrency": 3},
			"replicaCount": 1, "admissionPolicy": map[string]any{"enabled": false},
		})
		expectUndisturbed(ctx, func() { Expect(r.helm.Upgrade(ctx, changed)).To(Succeed()) })
		expectUndisturbed(ctx, func() { Expect(r.helm.Rollback(ctx, release, 1)).To(Succeed()) })
	})

	It("keeps them when Helm rolls an upgrade back by itself that does not get ready", func(ctx context.Context) {
		broken := release
		broken.Values = with(release.Values, map[string]any{"extraArgs": []any{"--no-such-flag"}, "metrics": map[string]any{"enabled": false}})
		broken.Args, broken.Timeout = []string{"--atomic"}, time.Minute // that of the rollback as well
		expectUndisturbed(ctx, func() {
			Expect(r.helm.Upgrade(ctx, broken)).To(MatchError(MatchRegexp("has been rolled back due to (atomic|rollback-on-failure) being set")))
		})
		status, err := r.helm.Status(ctx, release)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Info.Status).To(Equal("deployed"))
	})

	It("holds nothing any more when it is uninstalled, and leaves Rancher clusters alone", func(ctx context.Context) {
		r.leftBehind(ctx, watch1, "left-behind")
		before = r.records(ctx)
		Expect(before).To(HaveLen(len(clusters) + 1))
		began := metav1.NowMicro()
		r.withoutBindings(ctx, release, []string{watch1, watch2}, func() { Expect(r.helm.Uninstall(ctx, release)).To(Succeed()) })
		r.uninstalled(ctx, release, began)
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.left(ctx, release)).To(BeEmpty())
		Expect(r.records(ctx)).To(Equal(before))
		r.expectLawful(release)
	})
})
