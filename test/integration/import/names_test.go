package import_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Rancher brings Secrets to clusters by their display names, so no tenant gets that of another's cluster.
var _ = Describe("Display names", Ordered, func() {
	const displayName = "archelon.io/display-name"
	var f *fixture
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "names", Audit: true})
		f.Values = nil // The admission policy refuses a name that is none.
		f.startManager(ctx, importing.Gate("v3"), "--sync-period=1h")
	})
	// inRancher creates a v3 Cluster that nobody here imports.
	inRancher := func(ctx context.Context, name string) *managementv3.Cluster {
		GinkgoHelper()
		cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}
		cluster.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
		cluster.Spec.DisplayName = name
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		return cluster
	}
	shown := func(ctx context.Context, cluster *clusterv1.Cluster) func() []string {
		return func() []string {
			var names []string
			for _, record := range f.V3Records(ctx, cluster) {
				names = append(names, record.Spec.DisplayName)
			}
			return names
		}
	}

	It("are refused before anything is created, and given as soon as they are free", func(ctx context.Context) {
		holder := inRancher(ctx, "Prod")
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/DisplayNameTaken"))
		Expect(conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)).
			To(And(ContainSubstring(holder.Name), ContainSubstring(displayName)))
		Expect(cluster.Finalizers).To(BeEmpty())
		Expect(cluster.Annotations).NotTo(HaveKey(importing.RecordKey))
		Consistently(shown(ctx, cluster)).Should(BeEmpty())
		Eventually(f.Events).WithArguments(ctx, cluster).Should(ContainElement("DisplayNameTaken"))

		Expect(f.Client.Delete(ctx, holder)).To(Succeed())
		Eventually(shown(ctx, cluster)).WithTimeout(importing.Reaction).Should(ConsistOf("prod"), "the watch tells")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		f.ExpectNothingLeft(ctx, cluster)
	})

	It("are what an annotation says, also later, where they are free", func(ctx context.Context) {
		holder := inRancher(ctx, "blue")
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "blue", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/DisplayNameTaken"))
		rename := func(name string) {
			GinkgoHelper()
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, displayName, name) })
		}
		rename("Green!")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InvalidSetting"))
		rename("green")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(shown(ctx, cluster)()).To(ConsistOf("green"))

		rename("blue")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/DisplayNameTaken"))
		Expect(shown(ctx, cluster)()).To(ConsistOf("green"))
		Expect(f.Client.Delete(ctx, holder)).To(Succeed())
		Eventually(shown(ctx, cluster)).WithTimeout(importing.Reaction).Should(ConsistOf("blue"))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		f.ExpectNothingLeft(ctx, cluster)
	})

	It("go to one of many that want the same at the same time", func(ctx context.Context) {
		var clusters []*clusterv1.Cluster
		for range 4 {
			// The import of the first one gets as far as a kubeconfig that is none.
			clusters = append(clusters, f.ClusterWith(ctx, f.Namespace(ctx, nil), "same", []byte("none")))
		}
		for _, cluster := range clusters {
			f.Choose(ctx, cluster, "true")
		}
		count := func(reason string) func() int {
			return func() int {
				found := 0
				for _, cluster := range clusters {
					if f.Reason(ctx, cluster)() == reason {
						found++
					}
				}
				return found
			}
		}
		Eventually(count("False/DisplayNameTaken")).Should(Equal(len(clusters) - 1))
		Eventually(count("False/KubeconfigInvalid")).Should(Equal(1))
		var records []string
		for _, cluster := range clusters {
			records = append(records, shown(ctx, cluster)()...)
		}
		Expect(records).To(ConsistOf("same"))
	})

	AfterAll(func() { f.ExpectLawful() })
})
