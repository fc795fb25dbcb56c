package import_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// The gate rules new imports. What is imported keeps its kind, and is served, repaired and deleted under either gate.
var _ = Describe("A gate that is flipped", Ordered, func() {
	const each = 20
	var (
		f         *fixture
		servers   *workloadserver.Server
		namespace string
		of        = map[string][]*clusterv1.Cluster{}
		before    map[string]types.UID
	)
	create := func(ctx context.Context, name string) *clusterv1.Cluster {
		GinkgoHelper()
		kubeconfig, err := servers.Kubeconfig(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
		return f.ClusterWith(ctx, namespace, name, kubeconfig)
	}
	// records are the UIDs of the Rancher clusters by kind and CAPI Cluster. A cluster with two of them fails.
	records := func(ctx context.Context) map[string]types.UID {
		GinkgoHelper()
		found, world := map[string]types.UID{}, f.Look(ctx)
		for _, clusters := range of {
			for _, cluster := range clusters {
				for _, kind := range importing.Strategies() {
					for _, record := range world.Records(kind, cluster) {
						Expect(found).NotTo(HaveKey(kind+"/"+cluster.Name), "two Rancher clusters")
						found[kind+"/"+cluster.Name] = record.GetUID()
					}
				}
			}
		}
		return found
	}
	expectAllImported := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			world := f.Look(ctx)
			for kind, clusters := range of {
				for _, cluster := range clusters {
					g.Expect(importing.ReasonOf(world.Cluster(cluster))).To(Equal("True/Imported"), cluster.Name)
					g.Expect(world.Records(kind, cluster)).To(HaveLen(1), cluster.Name)
				}
			}
		}).WithTimeout(3 * patience).Should(Succeed())
	}
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "gate", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		servers = importing.StartLights(ctx)
		namespace = f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		for _, kind := range importing.Strategies() {
			f.run(ctx, importing.Gate(kind))
			for i := range each {
				of[kind] = append(of[kind], create(ctx, fmt.Sprintf("%s-%02d", kind, i)))
			}
			expectAllImported(ctx)
			Expect(f.Manager.Stop()).To(Succeed())
		}
		before = records(ctx)
		Expect(before).To(HaveLen(2 * each))
	})

	It("replaces no Rancher cluster, and serves and repairs both kinds", func(ctx context.Context) {
		for round, gate := range importing.Strategies() {
			f.run(ctx, importing.Gate(gate))
			team := fmt.Sprintf("team-%d", round)
			for _, clusters := range of {
				for i, cluster := range clusters {
					f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
						o.SetLabels(labels.Merge(o.GetLabels(), labels.Set{"team": team}))
					})
					if i%4 == 0 { // What ties it to its CAPI Cluster, and holds it.
						record := f.Look(ctx).Records(kindOf(of, cluster), cluster)[0]
						f.Patch(ctx, importing.Current(ctx, f.Client, record), func(o client.Object) {
							o.SetFinalizers(nil)
						})
					}
				}
			}
			Eventually(func(g Gomega) {
				world := f.Look(ctx)
				for kind, clusters := range of {
					for _, cluster := range clusters {
						found := world.Records(kind, cluster)
						g.Expect(found).To(HaveLen(1), cluster.Name)
						g.Expect(found[0].GetLabels()).To(HaveKeyWithValue("team", team), cluster.Name)
						g.Expect(found[0].GetFinalizers()).To(ContainElement(importing.Finalizer), cluster.Name)
					}
				}
			}).WithTimeout(3 * patience).Should(Succeed())
			expectAllImported(ctx)
			Expect(records(ctx)).To(Equal(before))
			Expect(f.Manager.Stop()).To(Succeed())
		}
	})

	It("imports a new cluster as the gate says, beside those of the other kind", func(ctx context.Context) {
		for _, gate := range importing.Strategies() {
			f.run(ctx, importing.Gate(gate))
			of[gate] = append(of[gate], create(ctx, "new-"+gate))
			expectAllImported(ctx)
			Expect(f.Manager.Stop()).To(Succeed())
		}
	})

	It("keeps one Rancher cluster for a cluster whose name was written under the other gate", func(ctx context.Context) {
		for _, gate := range importing.Strategies() {
			cluster := create(ctx, "written-"+gate)
			named := map[string]string{"v1": "v3/c-bcdfg", "v3": "v1/written-v3-capi"}[gate]
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				importing.SetAnnotation(o, importing.RecordKey, named)
				o.SetFinalizers(append(o.GetFinalizers(), importing.Finalizer))
			})
			of[gate] = append(of[gate], cluster)
			f.run(ctx, importing.Gate(gate))
			expectAllImported(ctx)
			Expect(f.Look(ctx).Records(importing.OtherThan(gate), cluster)).To(BeEmpty())
			Expect(f.Manager.Stop()).To(Succeed())
		}
	})

	It("deletes both kinds under one gate", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v1"))
		for _, clusters := range of {
			for _, cluster := range clusters {
				Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			}
		}
		Eventually(f.NothingOfRancher(ctx)).WithTimeout(3 * patience).Should(BeEmpty())
	})
})

// kindOf is the kind of the Rancher cluster of a cluster.
func kindOf(of map[string][]*clusterv1.Cluster, cluster *clusterv1.Cluster) string {
	for kind, clusters := range of {
		if slices.Contains(clusters, cluster) {
			return kind
		}
	}
	return ""
}

var _ = Describe("A cluster with two Rancher clusters", Label("nightly"), func() {
	It("follows the one that is left when the other is deleted in Rancher", func(ctx context.Context) {
		f := newFixture(ctx, stage.Options{Name: "twice", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h")
		cluster := f.Cluster(ctx, f.Namespace(ctx, nil), "twice", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		first, ok := f.Look(ctx).Records("v3", cluster)[0].(*managementv3.Cluster)
		Expect(ok).To(BeTrue())
		second := &managementv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Labels: first.Labels, Annotations: first.Annotations, Finalizers: []string{importing.Finalizer}},
			Spec:       first.Spec,
		}
		Expect(f.Client.Create(ctx, second)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/DuplicateRancherClusters"))
		Expect(f.Client.Delete(ctx, first)).To(Succeed())
		Eventually(f.K(ctx).Get(first)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).To(HaveKeyWithValue(importing.RecordKey, "v3/"+second.Name))

		By("noting it when that one is deleted as well")
		Expect(f.Client.Delete(ctx, second)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	})
})

// Scenario: an administrator converts Rancher clusters by the commands of ADR 0002. They need jq, which only the
// nightly run has.
var _ = Describe("The commands of ADR 0002", Label("nightly"), func() {
	const page, section = "docs/adr/0002-two-kinds.md", "## What operators notice"

	It("convert one cluster, and then a fleet", func(ctx context.Context) {
		f := newFixture(ctx, stage.Options{Name: "convert", Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		f.run(ctx, importing.Gate("v1"))
		servers, namespace, clusters := importing.StartLights(ctx), f.Namespace(ctx, nil), []*clusterv1.Cluster{}
		for _, name := range []string{"prod", "stage", "test"} {
			kubeconfig, err := servers.Kubeconfig(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
			clusters = append(clusters, f.ClusterWith(ctx, namespace, name, kubeconfig, importing.Selected))
		}
		imported := func(kinds ...string) func(Gomega) {
			return func(g Gomega) {
				world := f.Look(ctx)
				for i, cluster := range clusters {
					g.Expect(importing.ReasonOf(world.Cluster(cluster))).To(Equal("True/Imported"), cluster.Name)
					g.Expect(world.Records(kinds[i], cluster)).To(HaveLen(1), cluster.Name)
					g.Expect(world.Records(importing.OtherThan(kinds[i]), cluster)).To(BeEmpty(), cluster.Name)
				}
			}
		}
		Eventually(imported("v1", "v1", "v1")).WithTimeout(patience).Should(Succeed())
		Expect(f.Manager.Stop()).To(Succeed())
		f.run(ctx, importing.Gate("v3"))
		Eventually(imported("v1", "v1", "v1")).WithTimeout(patience).Should(Succeed())

		By("converting one")
		one := apart.Commands(page, section, "kubectl wait")
		apart.Run(ctx, f.Management, strings.ReplaceAll(one, "tenant-a", namespace))
		Eventually(imported("v3", "v1", "v1")).Should(Succeed())

		By("converting the others")
		dir := GinkgoT().TempDir()
		_, err := stage.BuildManager(ctx, dir, false)
		Expect(err).NotTo(HaveOccurred())
		script := strings.NewReplacer("prod", `"$2"`, "tenant-a", `"$1"`).Replace(one)
		Expect(os.WriteFile(filepath.Join(dir, "convert.sh"), []byte(script), 0o600)).To(Succeed())
		apart.Run(ctx, f.Management, fmt.Sprintf("cd %s; PATH=%[1]s:$PATH\n", dir)+apart.Commands(page, section, "v1.txt"))
		Eventually(imported("v3", "v3", "v3")).Should(Succeed())
	})
})
