package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/test/capi"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// deliveredBySet has the controllers of Cluster API install the agent, with the ClusterResourceSet of the
// documentation. The names are those of its example.
func deliveredBySet(world func() *capiWorld) {
	const namespace, name, setName = "tenant-a", "prod", "prod-rancher-agent"
	var (
		w   *capiWorld
		p   *provisioned
		set []byte
	)
	BeforeAll(func(ctx context.Context) {
		w = world()
		page, err := os.ReadFile(filepath.Join(stage.Root(), "docs", "operations", "agent-delivery.md"))
		Expect(err).NotTo(HaveOccurred())
		match := regexp.MustCompile("(?s)```yaml\n(apiVersion: addons.*?)```").FindSubmatch(page)
		Expect(match).NotTo(BeNil())
		set = match[1]
		Expect(w.Client.Create(ctx, importing.NamespaceOf(namespace))).To(Succeed())
		p = w.prepare(ctx, namespace, name)
	})

	It("is connected by the ClusterResourceSet of the documentation", func(ctx context.Context) {
		w.apply(ctx, namespace, set, nil)
		manifest, err := capi.Plain(capi.Cluster{Name: name, Port: p.gateway.Port(), ControlPlanes: 1, Labels: map[string]string{"example.com/cluster": name}})
		w.apply(ctx, namespace, manifest, err)
		w.kubectl(ctx, namespace, nil, "annotate", "cluster/"+name, "archelon.io/agent-delivery=manual")
		w.Choose(ctx, importing.NamespaceOf(namespace), "true")
		w.connect(ctx, p)
		w.imported(ctx, p)
		w.kubectl(ctx, namespace, nil, "wait", "clusterresourcesetbinding/"+name, "--timeout=1m",
			"--for=jsonpath={.spec.bindings[?(@.clusterResourceSetName=='"+setName+"')].resources[?(@.name=='"+setName+"')].applied}=true")
		Expect(p.asked("")).To(BeZero(), "requests of Archelon to the workload cluster")
	})

	It("is connected again after an un-import, when the ClusterResourceSet is created again", func(ctx context.Context) {
		w.Choose(ctx, importing.Current(ctx, w.Client, p.cluster), "false")
		Eventually(w.Reason(ctx, p.cluster)).WithTimeout(capiPatience).Should(Equal("False/NotSelected"))
		Eventually(w.Manifest(ctx, p.cluster)).Should(BeEmpty())
		w.Choose(ctx, importing.Current(ctx, w.Client, p.cluster), "true")
		Eventually(w.ReasonIn(ctx, p.cluster, "AgentManifest")).WithTimeout(capiPatience).Should(Equal("True/ManifestReady"))
		w.kubectl(ctx, namespace, nil, "delete", "clusterresourceset/"+setName)
		w.apply(ctx, namespace, set, nil)
		w.imported(ctx, p)
		Expect(p.asked("")).To(BeZero(), "requests of Archelon to the workload cluster")
	})

	It("goes, with the Secret, although the ClusterResourceSet owns that, too", func(ctx context.Context) {
		secret := importing.Current(ctx, w.Client, importing.ManifestSecret(p.cluster))
		Expect(metav1.IsControlledBy(secret, importing.Current(ctx, w.Client, p.cluster))).To(BeTrue())
		Expect(secret.OwnerReferences).To(ContainElement(HaveField("Kind", "ClusterResourceSet")))
		w.expectDeleted(ctx, p)
	})
}
