package import_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	standin "github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	takeOver  = "archelon.io/take-over-agent"
	takenOver = "archelon.io/agent-taken-over"
)

// A workload cluster that is about to be imported may have an agent. It is taken from nobody who did not agree.
var _ = Describe("The agent of another", Ordered, ContinueOnFailure, func() {
	const workload = "owner-workload"
	var (
		f       *fixture
		cluster *clusterv1.Cluster
	)
	BeforeAll(func(ctx context.Context) {
		s := startStage(ctx, stage.Options{Name: "owner", Audit: true, Rancher: func(o *standin.Options) { o.Logger = GinkgoLogr }})
		f = fixtureOn(ctx, s, env.Options{Name: workload, Audit: true, ControllerManager: true})
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period="+resync.String())
	})
	AfterAll(func() { f.ExpectNoSecrets() })

	Describe("Rancher cluster", Ordered, func() {
		const hand = "c-hand1"
		imported := func() *managementv3.Cluster {
			object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hand}}
			object.Spec.DisplayName = "by-hand"
			return object
		}
		BeforeAll(func(ctx context.Context) {
			Expect(f.Client.Create(ctx, imported())).To(Succeed())
			f.installByHand(ctx, hand)
			Eventually(func() int { return f.Rancher.Reapplies(hand) }).Should(Equal(1))
			cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
		})
		It("is left alone", func(ctx context.Context) {
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentOfAnotherCluster"))
			Expect(f.message(ctx, cluster)).To(ContainSubstring(takeOver + ` to "` + hand + `"`))
			Consistently(f.workloadWrites).WithTimeout(quiet).Should(BeEmpty())
			Expect(f.holdsAgent(hand)).To(BeTrue())
		})
		It("is taken over at once when the owner asks for it by name", func(ctx context.Context) {
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, takeOver, "c-wrong") })
			Consistently(f.workloadWrites).WithTimeout(resync).Should(BeEmpty())
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, takeOver, hand) })
			Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).Should(Equal("True/Imported"))
			Expect(f.holdsAgent(hand)).To(BeFalse())
			record := f.V3Records(ctx, cluster)[0]
			Eventually(func() map[string]string { return importing.Current(ctx, f.Client, &record).Annotations }).Should(HaveKey(takenOver))
			f.expectDeployed(ctx, cluster)
		})
		It("is not taken a second time because of the same annotation", func(ctx context.Context) {
			f.installByHand(ctx, hand, func(manifest []*unstructured.Unstructured) {
				for _, object := range manifest { // As Rancher does, which would do it once and no more.
					if object.GetKind() == "Secret" {
						Expect(unstructured.SetNestedField(object.Object, base64.StdEncoding.EncodeToString([]byte(hand)), "data", "namespace")).To(Succeed())
					}
				}
			})
			Eventually(f.holdsAgent).WithArguments(hand).Should(BeTrue())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentOfAnotherCluster"))
			before := f.repairs()
			Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before))
			Expect(f.holdsAgent(hand)).To(BeTrue())
		})
		It("is replaced when its Rancher cluster is gone", func(ctx context.Context) {
			Expect(f.Client.Delete(ctx, imported())).To(Succeed())
			Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		})
	})

	It("Rancher is taken over once, and the two never fight for it", Label("nightly"), func(ctx context.Context) {
		there := startStage(ctx, stage.Options{Name: "owner-there", Audit: true, Rancher: func(o *standin.Options) { o.Logger = GinkgoLogr }})
		Expect(there.Attach(workload, f.Lane.Plane)).To(Succeed())
		DeferCleanup(func() { there.Rancher.RemoveWorkload(workload) })
		g := &fixture{&importing.Fixture{Stage: there, Lane: f.Lane}}
		g.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period="+resync.String())

		f.expectDeployed(ctx, cluster)
		before := len(f.workloadWrites())
		second := g.Cluster(ctx, g.Namespace(ctx, nil), "prod", importing.Selected)
		Eventually(g.Reason(ctx, second)).Should(Equal("False/AgentOfAnotherRancher"))
		Expect(g.message(ctx, second)).To(ContainSubstring(takeOver + ` to "127.0.0.1"`))
		Consistently(f.workloadWrites).WithTimeout(quiet).Should(HaveLen(before), "not even a Secret")
		Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))

		ask := func(f *fixture, cluster *clusterv1.Cluster) {
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, takeOver, "127.0.0.1") })
		}
		By("asking for it there")
		ask(g, second)
		Eventually(g.Reason(ctx, second)).Should(Equal("True/Imported"))
		g.expectDeployed(ctx, second)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentOfAnotherRancher"))
		By("asking for it here, while the other still asks")
		ask(f, cluster)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Eventually(g.Reason(ctx, second)).Should(Equal("False/AgentOfAnotherRancher"))
		before = len(f.workloadWrites())
		Consistently(f.workloadWrites).WithTimeout(3 * quiet).Should(HaveLen(before))
		Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))
	})

	It("cluster, that of Rancher itself, gets none unless its owner asks for it", func(ctx context.Context) {
		kubeconfig, err := f.Management.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		own := f.ClusterWith(ctx, f.Namespace(ctx, nil), "own", kubeconfig, importing.Selected)
		Eventually(f.Reason(ctx, own)).Should(Equal("False/ManagementCluster"))
		agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}}
		Expect(f.K(ctx).Get(importing.NamespaceOf(importing.AgentNamespace))()).To(Satisfy(apierrors.IsNotFound))
		f.Patch(ctx, importing.Current(ctx, f.Client, own), func(o client.Object) { importing.SetAnnotation(o, "archelon.io/import-management-cluster", "true") })
		Eventually(f.K(ctx).Get(agent)).Should(Succeed())
	})

	// What an agent is installed with counts until it has connected.
	It("network gets a proxy, as the page about troubles says", func(ctx context.Context) {
		page, err := os.ReadFile(filepath.Join(stage.Root(), "docs", "operations", "troubleshooting.md"))
		Expect(err).NotTo(HaveOccurred())
		remedy := regexp.MustCompile(`kubectl annotate cluster -n NAMESPACE NAME (archelon\.io/agent-env)='([^']+)'`).FindStringSubmatch(string(page))
		Expect(remedy).NotTo(BeNil())

		l := f.StartLane(ctx, env.Options{Name: "owner-proxy", Audit: true})
		f.Rancher.RequireAgentEnv("HTTPS_PROXY")
		DeferCleanup(func() { f.Rancher.RequireAgentEnv("") })
		behind := f.ClusterIn(ctx, l, f.Namespace(ctx, nil), "behind", importing.Selected)
		Eventually(f.Reason(ctx, behind)).Should(Equal("False/WaitingForAgent"))
		Consistently(f.Reason(ctx, behind)).WithTimeout(resync).Should(Equal("False/WaitingForAgent"))
		f.Patch(ctx, importing.Current(ctx, f.Client, behind), func(o client.Object) { importing.SetAnnotation(o, remedy[1], remedy[2]) })
		Eventually(f.Reason(ctx, behind)).WithTimeout(importing.Reaction).Should(Equal("True/Imported"))

		By("changing the registry while the agent is away and has no Pods")
		// Until Rancher has looked at the cluster by its agent, the agent counts as one that has yet to connect.
		Eventually(func() any { return f.V3Records(ctx, behind)[0].Status.Conditions }).Should(ContainElement(And(
			HaveField("Type", BeEquivalentTo("Waiting")), HaveField("Status", BeEquivalentTo("True")),
		)))
		f.Rancher.RemoveWorkload(l.Name)
		Eventually(f.Reason(ctx, behind)).Should(Equal("False/AgentDisconnected"))
		setting := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "system-default-registry"}}
		Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(setting), setting)).To(Succeed())
		setting.Value = "registry.example.com"
		Expect(f.Client.Update(ctx, setting)).To(Succeed())
		Eventually(func(g Gomega) {
			agent := &appsv1.Deployment{}
			g.Expect(l.Client.Get(ctx, client.ObjectKey{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}, agent)).To(Succeed())
			g.Expect(agent.Spec.Template.Spec.Containers[0].Image).To(HavePrefix("registry.example.com/"))
		}).WithTimeout(importing.Reaction).Should(Succeed())
	})
})

// holdsAgent reports whether Rancher has a session of the agent of a v3 Cluster.
func (f *fixture) holdsAgent(cluster string) bool {
	_, ok := f.Rancher.Connected(cluster)
	return ok
}

// expectDeployed waits until Rancher has applied its agent itself, which it does once. Until then it would do so
// whoever has taken the agent.
func (f *fixture) expectDeployed(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Eventually(func() int { return f.Rancher.Reapplies(f.V3Records(ctx, cluster)[0].Name) }).Should(BeNumerically(">", 0))
}

// message returns the message of the import's condition.
func (f *fixture) message(ctx context.Context, cluster *clusterv1.Cluster) string {
	GinkgoHelper()
	return conditions.GetMessage(importing.Current(ctx, f.Client, cluster), importing.Condition)
}

// installByHand does what Rancher tells a user to do to register a cluster: kubectl apply of the manifest.
func (f *fixture) installByHand(ctx context.Context, cluster string, change ...func([]*unstructured.Unstructured)) {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Eventually(func() error {
		return f.Client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: "crt-token-default-token"}, secret)
	}).Should(Succeed())
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(f.Rancher.CACert())).To(BeTrue())
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Rancher.URL()+"/v3/import/"+string(secret.Data["token"])+"_"+cluster+".yaml", nil)
	Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	Eventually(func(g Gomega) { // Rancher takes a moment to know its own token.
		response, err := browser.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		manifest, err := rancher.ParseManifest(raw)
		g.Expect(err).NotTo(HaveOccurred())
		objects = manifest.Objects()
	}).Should(Succeed())
	for _, c := range change {
		c(objects)
	}
	for _, object := range objects {
		apply := client.ApplyConfigurationFromUnstructured(object)
		Expect(f.Lane.Client.Apply(ctx, apply, client.FieldOwner("kubectl"), client.ForceOwnership)).To(Succeed())
	}
}
