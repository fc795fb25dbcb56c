package import_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: a tenant writes labels without end on its own cluster. Caches have a bound, and what they leave out must
// not look as if somebody had taken it off.
var _ = Describe("A Cluster with a megabyte of labels", Ordered, func() {
	var (
		f         *fixture
		namespace string
		cluster   *clusterv1.Cluster
		record    client.Object
	)
	const zone = "example.com/zone"
	handedOn := map[string]string{"team": "blue", "zzz.example.com/last": "kept"}

	relabel := func(ctx context.Context, change func(map[string]string)) {
		GinkgoHelper()
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { change(o.GetLabels()) })
	}
	inRancher := func(ctx context.Context) func() map[string]string {
		return func() map[string]string { return importing.Current(ctx, f.Client, record).GetLabels() }
	}
	haveAll := func() OmegaMatcher {
		return And(HaveKeyWithValue("team", "blue"), HaveKeyWithValue("zzz.example.com/last", "kept"))
	}

	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "many-labels", Audit: true})
		namespace = f.Namespace(ctx, nil)
	})
	AfterAll(func(ctx context.Context) { f.expectNoAgent(ctx) })

	It("keeps in Rancher the labels that were handed on, and says what to do", func(ctx context.Context) {
		// Without the import label: the selector of the installation chooses it.
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h", "--import-selector="+zone+"=z1")
		cluster = f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
			c.Labels = map[string]string{zone: "z1"}
			maps.Copy(c.Labels, handedOn)
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		record = f.Look(ctx).Records("v3", cluster)[0]
		Eventually(inRancher(ctx)).Should(haveAll())

		before := len(inRancher(ctx)())
		relabel(ctx, func(labels map[string]string) {
			for i := range 3000 {
				labels[fmt.Sprintf("example.com/%05d-%s", i, strings.Repeat("x", 50))] = strings.Repeat("v", 63)
			}
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TooManyLabels"))
		Consistently(inRancher(ctx)).Should(And(haveAll(), HaveLen(before)))

		By("also when a manager begins with it")
		Expect(f.Manager.Stop()).To(Succeed())
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h", "--import-selector="+zone+"=z1")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TooManyLabels"))
		Consistently(inRancher(ctx)).Should(And(haveAll(), HaveLen(before)))

		By("without a delay of others")
		other := f.ClusterWith(ctx, namespace, "other", []byte("none"), func(c *clusterv1.Cluster) { c.Labels = map[string]string{zone: "z1"} })
		Eventually(func() []client.Object { return f.Look(ctx).Records("v3", other) }).Should(HaveLen(1))

		By("and goes on when the labels are gone")
		relabel(ctx, func(labels map[string]string) {
			maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "example.com/0") })
			labels["team"] = "red"
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(inRancher(ctx)).Should(HaveKeyWithValue("team", "red"))
		Expect(inRancher(ctx)()).To(HaveKeyWithValue("zzz.example.com/last", "kept"))
		Expect(f.Look(ctx).Records("v3", cluster)).To(HaveLen(1))
	})

	It("keeps the finalizers of others when it goes, however many there are", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h", "--import-selector="+zone+"=z1")
		var many []string
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
			for i := range 500 {
				many = append(many, fmt.Sprintf("example.com/%04d-%s", i, strings.Repeat("x", 50)))
			}
			o.SetFinalizers(append(many, o.GetFinalizers()...))
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(func() []string { return importing.Current(ctx, f.Client, cluster).GetFinalizers() }).Should(Equal(many))
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { o.SetFinalizers(nil) })
	})
})
