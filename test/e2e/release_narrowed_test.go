package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Scenario: a release works on less than it did, and what it imported before is still there.
var _ = Describe("A release whose scope was narrowed", Label("nightly"), Ordered, func() {
	var (
		r                     = &releases{}
		release               helm.Release
		first, second, colour *clusterv1.Cluster
		before                map[string]string
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		release = r.release(ctx, "archelon", map[string]any{"replicaCount": 1})
		first, second = r.light(ctx, watch1, "first", importing.Selected), r.light(ctx, watch2, "second", importing.Selected)
		colour = r.light(ctx, watch3, "colour", importing.Selected, func(c *clusterv1.Cluster) { c.Labels[clusterv1.WatchLabel] = "blue" })
		r.install(ctx, release)
		r.expectImported(ctx, first, second, colour)
		before = r.records(ctx)
	})
	finalizersOf := func(ctx context.Context, cluster *clusterv1.Cluster) func() []string {
		return func() []string { return importing.Current(ctx, r.Client, cluster).Finalizers }
	}

	It("is not made an isolated one as long as it holds clusters elsewhere", func(ctx context.Context) {
		isolated := release
		isolated.Values = with(release.Values, map[string]any{"namespaces": []any{watch1, watch3}})
		Expect(r.helm.Upgrade(ctx, isolated)).To(MatchError(And(
			ContainSubstring("CAPI clusters outside of namespaces: watch2/second: uninstall it"), Not(ContainSubstring("first")))))
		late := r.light(ctx, watch2, "late", importing.Selected)
		r.expectImported(ctx, late)
		r.drop(ctx, late)
	})

	It("holds nothing any more when it is uninstalled as a central one, and leaves alone what another one has taken over", func(ctx context.Context) {
		other := r.light(ctx, watch2, "other", func(c *clusterv1.Cluster) {
			c.Finalizers = []string{importing.Finalizer}
			c.Spec.Paused = new(true)
			importing.SetAnnotation(c, instanceKey, "other-system/other")
		})
		narrowed := release
		narrowed.Values = with(release.Values, map[string]any{"excludedNamespaces": []any{watch2}, "watchFilter": "blue"})
		Expect(r.helm.Upgrade(ctx, narrowed)).To(Succeed())
		// What it excludes is let go, and what the filter leaves out is not: somebody may put the label on again.
		Eventually(r.held).WithArguments(ctx).WithTimeout(patience).Should(HaveLen(1 + 2*(len(before)-1)))
		Expect(finalizersOf(ctx, second)()).NotTo(ContainElement(importing.Finalizer))
		Consistently(r.held).WithArguments(ctx).Should(HaveLen(1 + 2*(len(before)-1)))
		Expect(r.helm.Uninstall(ctx, narrowed)).To(Succeed())
		Expect(r.held(ctx)).To(ConsistOf(HaveSuffix("watch2/other")))
		Expect(r.left(ctx, narrowed)).To(BeEmpty())
		Expect(r.records(ctx)).To(Equal(before))
		r.expectLawful(narrowed)
		r.Patch(ctx, importing.Current(ctx, r.Client, other), func(o client.Object) { o.SetFinalizers(nil) })
		r.drop(ctx, other)
	})

	It("lets go of the clusters of a namespace that an isolated one has no more, and another one goes on with them", func(ctx context.Context) {
		release.Values = map[string]any{"namespaces": []any{watch1, watch2}, "replicaCount": 2}
		r.install(ctx, release)
		for _, cluster := range []*clusterv1.Cluster{first, second} {
			Eventually(finalizersOf(ctx, cluster)).Should(ContainElement(importing.Finalizer))
		}
		release.Values = map[string]any{"namespaces": []any{watch1}, "replicaCount": 2}
		Expect(r.helm.Upgrade(ctx, release)).To(Succeed())
		Eventually(r.K(ctx).Get(roleBindingIn(watch2))).Should(Satisfy(apierrors.IsNotFound))
		Expect(r.held(ctx)).NotTo(ContainElement(ContainSubstring("watch2/")))
		Consistently(finalizersOf(ctx, second)).ShouldNot(ContainElement(importing.Finalizer))
		Expect(finalizersOf(ctx, first)()).To(ContainElement(importing.Finalizer))
		Expect(r.records(ctx)).To(Equal(before))

		next := r.release(ctx, "archelon2", map[string]any{"namespaces": []any{watch2}, "replicaCount": 1})
		r.install(ctx, next)
		Eventually(finalizersOf(ctx, second)).Should(ContainElement(importing.Finalizer))
		Expect(second.Annotations).To(HaveKeyWithValue(instanceKey, instanceOf("archelon2")))
		r.expectImported(ctx, second)
		Expect(r.records(ctx)).To(Equal(before))

		Expect(r.helm.Uninstall(ctx, release)).To(Succeed())
		Expect(finalizersOf(ctx, second)()).To(ContainElement(importing.Finalizer))
		Expect(r.helm.Uninstall(ctx, next)).To(Succeed())
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.records(ctx)).To(Equal(before))
		for _, release := range []helm.Release{release, next} {
			Expect(r.left(ctx, release)).To(BeEmpty())
			r.expectLawful(release)
		}

		By("a cluster that can be deleted")
		r.drop(ctx, second)
	})
})
