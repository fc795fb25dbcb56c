package edge_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: Archelon, Rancher and CAPI were in one cluster. CAPI moves into another one, and Archelon with it.
var _ = Describe("An ordinary installation that becomes one with Rancher elsewhere", Label("nightly"), func() {
	It("keeps its Rancher clusters and their agents", func(ctx SpecContext) {
		hub := newHub(ctx)
		workload, err := hub.Workload(ctx, env.Options{Name: "workload"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			hub.Rancher.RemoveWorkload("workload")
			Expect(workload.Stop()).To(Succeed())
		})
		hub.create(ctx, namespaceOf(system))
		before := &management{ControlPlane: hub.Management, client: hub.Client, hub: hub, values: map[string]any{
			"features":  map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
			"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
		}}
		stop := before.run(ctx)
		cluster := before.cluster(ctx, "team-a", "one", workload)
		Eventually(before.reason(ctx, cluster)).Should(Equal("True/Imported"))
		named := client.MatchingLabels{ownerNSLabel: "team-a", ownerLabel: "one"}
		records := func() []managementv3.Cluster {
			list := &managementv3.ClusterList{}
			Expect(hub.Client.List(ctx, list, named)).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		Expect(first[0].Labels).NotTo(HaveKey(originLabel))
		agent := agentIn(ctx, workload)
		Expect(stop()).To(Succeed())

		site := newManagement(ctx, hub, "site")
		moved := move(ctx, before, site, cluster)
		site.connect(ctx, hub.admit(ctx, site.uid))
		site.run(ctx)

		By("waiting for a person, instead of importing it a second time")
		Eventually(site.reason(ctx, moved)).Should(Equal("False/ForeignRecord"))
		Consistently(records).Should(HaveExactElements(HaveField("UID", first[0].UID)))

		By("going on once it is attached")
		attach(ctx, hub, site, "team-a")
		Eventually(site.reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(hub.records(ctx, site, moved)).To(HaveExactElements(HaveField("UID", first[0].UID)))
		Expect(records()).To(HaveLen(1))
		Expect(agentIn(ctx, workload)).To(Equal(agent))

		By("and ends with the CAPI Cluster")
		Expect(site.client.Delete(ctx, moved)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})
})

// agentIn returns the UID of Rancher's agent in a workload cluster.
func agentIn(ctx context.Context, workload *env.ControlPlane) types.UID {
	GinkgoHelper()
	c, err := client.New(workload.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	agent := &appsv1.Deployment{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: agentSystem, Name: "cattle-cluster-agent"}, agent)).To(Succeed())
	return agent.UID
}

// move moves a CAPI Cluster as clusterctl does: it is paused, created in the other cluster with another UID and without
// status, and deleted here without its finalizers, which nobody has time to see to.
func move(ctx context.Context, from, to *management, cluster *clusterv1.Cluster) *clusterv1.Cluster {
	GinkgoHelper()
	patch := func(m *management, object client.Object, data string) {
		GinkgoHelper()
		Expect(m.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(data)))).To(Succeed())
	}
	patch(from, cluster, `{"spec":{"paused":true}}`)
	Expect(client.IgnoreAlreadyExists(to.client.Create(ctx, namespaceOf(cluster.Namespace)))).To(Succeed())
	secret := builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil)
	Expect(from.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	Expect(to.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}, Data: secret.Data, Type: secret.Type,
	})).To(Succeed())
	moved := &clusterv1.Cluster{Spec: cluster.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.Name, Labels: cluster.Labels, Annotations: cluster.Annotations, Finalizers: cluster.Finalizers,
	}}
	Expect(moved.Finalizers).To(ContainElement(finalizer))
	Expect(to.client.Create(ctx, moved)).To(Succeed())
	patch(from, cluster, `{"metadata":{"finalizers":null}}`)
	Expect(from.client.Delete(ctx, cluster)).To(Succeed())
	builder.ControlPlaneUp(moved)
	Expect(to.client.Status().Update(ctx, moved)).To(Succeed())
	patch(to, moved, `{"spec":{"paused":null}}`)
	return moved
}

// attach runs the commands of the page in Rancher's cluster.
func attach(ctx context.Context, in *hub, moved *management, namespace string) {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(stage.Root(), "examples", "management-clusters", "README.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(page), "\n## After clusterctl move\n")
	Expect(found).To(BeTrue())
	_, block, found := strings.Cut(section, "```sh\n")
	Expect(found).To(BeTrue())
	commands, _, found := strings.Cut(block, "```\n")
	Expect(found).To(BeTrue())
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	write := func(name string, of *env.ControlPlane) string {
		raw, err := of.LocalKubeconfig()
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), name)
		Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
		return path
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+write("rancher", in.Management),
		"MANAGEMENT="+write("management", moved.ControlPlane), "NAMESPACE="+namespace)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	AddReportEntry("output", string(out))
}
