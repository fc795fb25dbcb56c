package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Document 000's test plan as it is written: two instances in namespaces of their own, three
// namespaces to watch, from the chart.
var _ = Describe("The test plan for shards", Label("kind", "nightly"), Ordered, func() {
	const one, two = "archelon1", "archelon2"
	r := &releases{}
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) { r.start(ctx) })

	// watch installs an instance, expects it to import what is in the namespaces that it watches and
	// nothing else, and uninstalls it.
	watch := func(ctx context.Context, name string, values map[string]any, watched int) {
		GinkgoHelper()
		release := r.release(ctx, name, values)
		r.install(ctx, release)
		clusters := r.each(ctx, "plan")
		r.expectImported(ctx, clusters[:watched]...)
		for _, cluster := range clusters[watched:] {
			r.expectUntouched(ctx, cluster)
			Expect(r.Reason(ctx, cluster)()).To(Equal("none"))
			Expect(r.Events(ctx, cluster)).To(BeEmpty())
		}
		r.remove(ctx, clusters...)
		r.expectLawful(release)
		Expect(r.helm.Uninstall(ctx, release)).To(Succeed())
		Expect(r.left(ctx, release)).To(BeEmpty())
	}

	It("watches all namespaces without --namespace and --excluded-namespace", func(ctx context.Context) {
		watch(ctx, one, nil, 3)
	})
	It("watches watch1 and watch2 with --namespace, and accepts no events from watch3", func(ctx context.Context) {
		watch(ctx, one, map[string]any{"namespaces": []any{watch1, watch2}}, 2)
	})
	It("watches watch1 and watch2 with --excluded-namespace watch3", func(ctx context.Context) {
		watch(ctx, two, map[string]any{"excludedNamespaces": []any{watch3}}, 2)
	})
	It("has two instances at work side by side", func(ctx context.Context) {
		releases := []helm.Release{
			r.release(ctx, one, map[string]any{"namespaces": []any{watch1, watch2}}),
			r.release(ctx, two, map[string]any{"excludedNamespaces": []any{watch1, watch2}}),
		}
		for _, release := range releases {
			r.install(ctx, release)
		}
		clusters := r.each(ctx, "both")
		r.expectImported(ctx, clusters...)
		for i, owner := range []string{one, one, two} {
			Expect(importing.Current(ctx, r.Client, clusters[i]).Annotations).To(HaveKeyWithValue(instanceKey, instanceOf(owner)))
		}
		r.remove(ctx, clusters...)
		for _, release := range releases {
			r.expectLawful(release)
			Expect(r.helm.Uninstall(ctx, release)).To(Succeed())
		}
		Expect(r.held(ctx)).To(BeEmpty())
	})
})
