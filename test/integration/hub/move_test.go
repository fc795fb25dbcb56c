package hub_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: clusterctl moves a CAPI Cluster from one registered management cluster to another, while the hub runs.
var _ = Describe("A CAPI Cluster that moves between management clusters", func() {
	It("keeps its Rancher cluster and its agent", func(ctx SpecContext) {
		rancher := newHub(ctx)
		east, west := newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "west")
		rancher.run(ctx)
		rancher.register(ctx, "east", east.kubeconfig)
		rancher.register(ctx, "west", west.kubeconfig)
		cluster := east.cluster(ctx, "team-a", "one", west.ControlPlane)
		Eventually(east.reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(engaged("west")).Should(BeEquivalentTo(1))
		records := func() []managementv3.Cluster {
			GinkgoHelper()
			list := &managementv3.ClusterList{}
			Expect(rancher.Client.List(ctx, list, client.MatchingLabels{ownerNSLabel: "team-a", ownerLabel: "one"})).To(Succeed())
			return list.Items
		}
		first := records()
		Expect(first).To(HaveLen(1))
		same := HaveExactElements(And(HaveField("UID", first[0].UID), HaveField("DeletionTimestamp", BeNil())))
		agent := agentIn(ctx, west)

		moved := move(ctx, east, west, cluster)
		Eventually(west.reason(ctx, moved)).Should(Equal("False/ForeignRecord"))
		Consistently(records).Should(same)

		By("going on once it is attached")
		attach(ctx, rancher, west, "team-a")
		Eventually(west.reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, west, moved)).To(same)
		Expect(records()).To(same)
		Expect(agentIn(ctx, west)).To(Equal(agent))

		By("and ends with the CAPI Cluster")
		Expect(west.client.Delete(ctx, moved)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})
})

// Scenario: Archelon, Rancher and CAPI were in one cluster. CAPI moves into another one, which is registered then.
var _ = Describe("An ordinary installation that becomes a hub", Label("nightly"), func() {
	It("keeps its Rancher clusters and their agents", func(ctx SpecContext) {
		rancher := newHub(ctx)
		east, shop := newManagement(ctx, rancher, "east"), newManagement(ctx, rancher, "shop")
		before := &management{ControlPlane: rancher.Management, client: rancher.Client}
		stop := ordinary(ctx, rancher)
		cluster := before.cluster(ctx, "team-a", "one", shop.ControlPlane)
		Eventually(before.reason(ctx, cluster)).Should(Equal("True/Imported"))
		list := &managementv3.ClusterList{}
		Expect(rancher.Client.List(ctx, list, client.MatchingLabels{ownerNSLabel: "team-a", ownerLabel: "one"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		agent := agentIn(ctx, shop)
		Expect(stop()).To(Succeed())

		moved := move(ctx, before, east, cluster)
		rancher.run(ctx)
		rancher.register(ctx, "east", east.kubeconfig)
		Eventually(east.reason(ctx, moved)).Should(Equal("False/ForeignRecord"))
		attach(ctx, rancher, east, "team-a")
		Eventually(east.reason(ctx, moved)).Should(Equal("True/Imported"))
		Expect(rancher.records(ctx, east, moved)).To(HaveExactElements(HaveField("UID", list.Items[0].UID)))
		Expect(rancher.Client.List(ctx, list, client.MatchingLabels{ownerNSLabel: "team-a", ownerLabel: "one"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(agentIn(ctx, shop)).To(Equal(agent))
	})
})

// ordinary starts a manager in this process that imports from Rancher's own cluster, and returns what stops it.
func ordinary(ctx context.Context, in *hub) (stop func() error) {
	GinkgoHelper()
	objects := render(ctx, "archelon", map[string]any{
		"features":  map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
		"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
	})
	apply(ctx, in.Client, objects)
	config, err := in.Management.ServiceAccountConfig(ctx, system, "archelon")
	Expect(err).NotTo(HaveOccurred())
	opts, err := options.New()
	Expect(err).NotTo(HaveOccurred())
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	Expect(flags.Parse(append(argsOf(objects), "--metrics-bind-address=0", "--health-probe-bind-address=0"))).To(Succeed())
	Expect(opts.Validate()).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	metrics.Registry = prometheus.NewRegistry() // Each manager registers the same.
	done := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		done <- setup.Run(running, config, opts, func(o *ctrl.Options) { o.Controller.SkipNameValidation = new(true) })
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	DeferCleanup(stop)
	return stop
}

// agentIn returns the UID of Rancher's agent in a cluster.
func agentIn(ctx context.Context, in *management) types.UID {
	GinkgoHelper()
	c, err := client.New(in.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	agent := &appsv1.Deployment{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: "cattle-cluster-agent"}, agent)).To(Succeed())
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
