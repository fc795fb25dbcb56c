package import_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario: a repository holds CAPI Clusters and Rancher clusters, and kubectl applies it as an ApplySet, which labels
// what it owns and deletes what has the label and is not in the repository.
var _ = Describe("A tool that prunes what it owns", func() {
	It("leaves the Rancher cluster of a CAPI Cluster that it owns", func(ctx context.Context) {
		f := newFixture(ctx, stage.Options{Name: "owners", Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		f.run(ctx, importing.Gate("v1"), "--unpropagated-label=example.com/*")
		namespace, dir := f.Namespace(ctx, nil), GinkgoT().TempDir()
		write := func(name string, object any) {
			GinkgoHelper()
			raw, err := yaml.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(dir, name+".yaml"), raw, 0o600)).To(Succeed())
		}
		cluster := builder.Cluster(namespace, "prod")
		cluster.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"}
		importing.Selected(cluster)
		maps.Copy(cluster.Labels, map[string]string{
			"example.com/owner": "us", "app.kubernetes.io/part-of": "fleet", "team": "blue",
		})
		write("cluster", cluster)
		write("rancher", map[string]any{
			"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "spec": map[string]any{},
			"metadata": map[string]any{"namespace": namespace, "name": "by-hand"},
		})
		apply := fmt.Sprintf("kubectl apply -n %s --prune --applyset=repository -f %s", namespace, dir)
		apart.Run(ctx, f.Management, apply, "KUBECTL_APPLYSET=true")
		Expect(f.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "prod"}, cluster)).To(Succeed())
		kubeconfig, err := f.Lane.Plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, "prod", kubeconfig))).To(Succeed())
		f.Status(ctx, cluster, builder.ControlPlaneUp)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		record := f.V1Records(ctx, cluster)[0]
		Expect(record.Labels).To(HaveKeyWithValue("team", "blue"))

		out := apart.Run(ctx, f.Management, apply, "KUBECTL_APPLYSET=true")
		Expect(strings.Count(out, "pruned")).To(BeZero(), out)
		Expect(f.V1Records(ctx, cluster)).To(HaveExactElements(And(HaveField("UID", record.UID), HaveField("DeletionTimestamp", BeNil()))))
		Expect(record.Labels).NotTo(Or(HaveKey("example.com/owner"), HaveKey("app.kubernetes.io/part-of")))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})
})
