package import_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const earlyKey = "archelon.io/early-import"

// Scenario: a cluster shows in Rancher before its control plane is available, because somebody asks for it.
var _ = Describe("An early import", func() {
	for _, strategy := range importing.Strategies() {
		describeEarlyImport(strategy)
	}
})

func describeEarlyImport(strategy string) {
	var (
		f         *fixture
		namespace string
	)
	early := func(value string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { importing.SetAnnotation(c, earlyKey, value) }
	}
	// unborn creates a CAPI cluster without a control plane: nothing is in its status, and there is no kubeconfig.
	unborn := func(ctx context.Context, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := builder.Cluster(namespace, name)
		for _, c := range change {
			c(cluster)
		}
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		return cluster
	}
	records := func(ctx context.Context, cluster *clusterv1.Cluster) func() []client.Object {
		return func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }
	}
	waits := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Eventually(records(ctx, cluster)).Should(HaveLen(1))
		Eventually(func() string {
			return conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)
		}).Should(ContainSubstring("This Cluster is shown in Rancher already"))
		Consistently(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
		Expect(f.Agent(ctx)).To(BeNil())
	}
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	}

	Describe("as "+strategy, nightlyUnless(strategy == "v3"), Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "early-" + strategy})
			namespace = f.Namespace(ctx, nil)
		})

		It("creates the Rancher cluster at once, and touches the workload cluster when its control plane is available", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--early-import=OnRequest")
			cluster := unborn(ctx, "prod", importing.Selected, early("true"))
			waits(ctx, cluster)
			uid := records(ctx, cluster)()[0].GetUID()

			kubeconfig, err := f.Lane.Plane.Kubeconfig()
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, "prod", kubeconfig))).To(Succeed())
			Consistently(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
			Expect(f.Agent(ctx)).To(BeNil())
			f.Status(ctx, cluster, builder.ControlPlaneUp)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(records(ctx, cluster)()).To(HaveExactElements(HaveField("GetUID()", uid)))
			end(ctx, cluster)
		})

		It("ends with its cluster, or with the label, although there never was a control plane", func(ctx context.Context) {
			f.run(ctx, importing.Gate(strategy), "--early-import=Always")
			cluster := unborn(ctx, "never", importing.Selected)
			waits(ctx, cluster)
			end(ctx, cluster)

			cluster = unborn(ctx, "un-imported", importing.Selected)
			waits(ctx, cluster)
			f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
			Eventually(records(ctx, cluster)).Should(BeEmpty())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
			end(ctx, cluster)

			By("an annotation wins over the flag")
			cluster = unborn(ctx, "late", importing.Selected, early("false"))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
			Consistently(records(ctx, cluster)).Should(BeEmpty())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, earlyKey, "soon") })
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
			Expect(records(ctx, cluster)()).To(BeEmpty())
			end(ctx, cluster)
		})

		It("is for administrators to allow, and fills Rancher with no more of a namespace than they say", func(ctx context.Context) {
			const most = 3
			f.run(ctx, importing.Gate(strategy))
			refused := unborn(ctx, "refused", importing.Selected, early("true"))
			Eventually(func() string {
				return conditions.GetMessage(importing.Current(ctx, f.Client, refused), importing.Condition)
			}).Should(ContainSubstring("Annotation archelon.io/early-import has no effect"))
			Expect(records(ctx, refused)()).To(BeEmpty())
			end(ctx, refused)
			Expect(f.Manager.Stop()).To(Succeed())

			f.run(ctx, importing.Gate(strategy), "--early-import=OnRequest", "--early-imports-per-namespace="+strconv.Itoa(most))
			var all []*clusterv1.Cluster
			for i := range 10 * most {
				all = append(all, unborn(ctx, fmt.Sprintf("squats-%d", i), importing.Selected, early("true")))
			}
			count := func() (created, waiting int) {
				for _, cluster := range all {
					created += len(records(ctx, cluster)())
					message := conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)
					if strings.Contains(message, "as many as the administrator of Archelon allows") {
						waiting++
					}
				}
				return created, waiting
			}
			Eventually(func() [2]int { created, waiting := count(); return [2]int{created, waiting} }).
				Should(Equal([2]int{most, 9 * most}))

			By("naming Rancher clusters that are none, which takes no place that is not free")
			for _, cluster := range all[len(all)-5:] {
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
					importing.SetAnnotation(o, "archelon.io/rancher-cluster", "v3/c-forged")
				})
			}
			Consistently(func() int { created, _ := count(); return created }).Should(BeNumerically("<=", most))

			By("deleting one that has a Rancher cluster: another one gets its place")
			has := slices.IndexFunc(all, func(c *clusterv1.Cluster) bool { return len(records(ctx, c)()) > 0 })
			end(ctx, all[has])
			all = slices.Delete(all, has, has+1)
			Eventually(func() int { created, _ := count(); return created }).Should(Equal(most))
			for _, cluster := range all {
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			}
		})
	})
}
