package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/capi"
	"github.com/archelon-io/archelon/test/importing"
)

// progress are the states of a new import in which nobody has to do anything. "none" is before the
// manager has seen the Cluster.
var progress = []string{
	"none", "False/WaitingForControlPlane", "False/WaitingForRancher", "False/ConnectingAgent", "False/WaitingForAgent", "True/Imported",
}

// Cluster API itself makes the clusters and reports on them: see README.md.
var _ = Describe("Cluster API", Label("capi"), Ordered, func() {
	var w *capiWorld
	BeforeAll(func(ctx context.Context) { w = newCAPIWorld(ctx, "capi") })
	Describe("with v3", Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			w.startManager(ctx, "--feature-gates=managementv3-cluster=true")
		})
		Describe("a plain Cluster", Ordered, func() { plainCluster(func() *capiWorld { return w }) })
		Describe("a Cluster of a ClusterClass", Ordered, func() { classCluster(func() *capiWorld { return w }) })
		Describe("100 Clusters at once", Label("long"), func() { manyClusters(func() *capiWorld { return w }) })
	})
	Describe("with v1", Ordered, func() {
		BeforeAll(func(ctx context.Context) { w.startManager(ctx, "--feature-gates=agent-manifest=true") })
		It("imports a Cluster and lets it go", func(ctx context.Context) {
			namespace := w.Namespace(ctx, nil)
			p := w.prepare(ctx, namespace, "old")
			seen := w.follow(ctx, p)
			manifest, err := capi.Plain(capi.Cluster{Name: "old", Port: p.gateway.Port(), ControlPlanes: 1, Labels: map[string]string{importing.ImportLabel: "true"}})
			w.apply(ctx, namespace, manifest, err)
			w.connect(ctx, p)
			w.imported(ctx, p)
			Expect(seen()).To(HaveEach(BeElementOf(progress)))
			Expect(w.V1Records(ctx, p.cluster)).To(HaveLen(1))
			Expect(w.V3Records(ctx, p.cluster)).To(BeEmpty())
			w.expectDeleted(ctx, p)
		})
		Describe("a Cluster whose agent a ClusterResourceSet installs", Ordered, func() { deliveredBySet(func() *capiWorld { return w }) })
	})
	AfterAll(func() {
		w.ExpectLawful()
		w.ExpectNoSecrets()
	})
})

// plainCluster takes a Cluster without a ClusterClass through its life.
func plainCluster(world func() *capiWorld) {
	var (
		w    *capiWorld
		p    *provisioned
		seen func() []string
		id   string // of the record
	)
	BeforeAll(func(ctx context.Context) {
		w = world()
		p = w.prepare(ctx, w.Namespace(ctx, nil), "plain")
		seen = w.follow(ctx, p)
	})

	It("waits for its control plane, and is available only after the import", func(ctx context.Context) {
		w.Rancher.HoldConnect(true)
		DeferCleanup(func() { w.Rancher.HoldConnect(false) })
		manifest, err := capi.Plain(capi.Cluster{
			Name: p.key.Name, Port: p.gateway.Port(), ControlPlanes: 1, Workers: 1,
			Labels: map[string]string{importing.ImportLabel: "true"}, Gates: []string{importing.Condition},
		})
		w.apply(ctx, p.key.Namespace, manifest, err)
		w.connect(ctx, p)
		Eventually(w.Reason(ctx, p.cluster)).WithTimeout(capiPatience).Should(Equal("False/WaitingForAgent"))
		Eventually(w.state(ctx, p, clusterv1.ClusterWorkersAvailableCondition)).WithTimeout(capiPatience).Should(Equal("True"))
		Eventually(w.state(ctx, p, clusterv1.ClusterControlPlaneAvailableCondition)).WithTimeout(capiPatience).Should(Equal("True"))
		Eventually(w.state(ctx, p, clusterv1.ClusterRemoteConnectionProbeCondition)).WithTimeout(capiPatience).Should(Equal("True"))
		Consistently(w.available(ctx, p)).Should(Equal("False"))

		w.Rancher.HoldConnect(false)
		w.imported(ctx, p)
		Eventually(w.available(ctx, p)).Should(Equal("True"))
		Expect(seen()).To(And(ContainElement("False/WaitingForControlPlane"), HaveEach(BeElementOf(progress))))
		Expect(w.creations()).To(Equal(1))
		records := w.V3Records(ctx, p.cluster)
		Expect(records).To(HaveLen(1))
		id = records[0].Name
	})

	It("is served by a gateway that does what an API server does", func(ctx context.Context) { expectConformant(ctx, p) })

	It("is none of the manager's business when it is scaled", func(ctx context.Context) {
		Eventually(func() int { return w.V3Records(ctx, p.cluster)[0].Status.NodeCount }).ShouldNot(BeZero(), "with that an import ends in Rancher")
		Expect(w.Rancher.Reapplies(id)).To(Equal(1))
		writes, version, asked := len(w.writes()), w.V3Records(ctx, p.cluster)[0].ResourceVersion, p.asked("")
		w.kubectl(ctx, p.key.Namespace, nil, "scale", "--replicas=3", "kubeadmcontrolplane/plain-cp", "machinedeployment/plain-md")
		Eventually(func(g Gomega) {
			status := importing.Current(ctx, w.Client, p.cluster).Status
			g.Expect(status.ControlPlane).NotTo(BeNil())
			g.Expect(status.Workers).NotTo(BeNil())
			g.Expect(ptr.Deref(status.ControlPlane.AvailableReplicas, 0)).To(BeEquivalentTo(3))
			g.Expect(ptr.Deref(status.Workers.AvailableReplicas, 0)).To(BeEquivalentTo(3))
		}).WithTimeout(capiPatience).Should(Succeed())
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
		Expect(w.writes()[writes:]).To(BeEmpty(), "%s", importing.Listing(w.writes()[writes:]))
		Expect(p.asked("")).To(Equal(asked))
		Expect(w.V3Records(ctx, p.cluster)[0].ResourceVersion).To(Equal(version))
	})

	It("is unavailable while Rancher has lost it, and available again afterwards", func(ctx context.Context) {
		w.Rancher.HoldConnect(true)
		DeferCleanup(func() { w.Rancher.HoldConnect(false) })
		w.Rancher.RemoveWorkload(p.key.String())
		w.connect(ctx, p)
		Eventually(w.Reason(ctx, p.cluster)).Should(Equal("False/AgentDisconnected"))
		Eventually(w.available(ctx, p)).Should(Equal("False"))
		w.Rancher.HoldConnect(false)
		w.imported(ctx, p)
		Eventually(w.available(ctx, p)).Should(Equal("True"))
		Expect(w.creations()).To(Equal(1))
	})

	It("is reached with the kubeconfig that Cluster API has renewed", func(ctx context.Context) {
		old := w.serial(ctx, p)
		short := w.shorten(ctx, p)
		// The provider looks at the age of a certificate whenever it looks at its control plane.
		w.kubectl(ctx, p.key.Namespace, nil, "annotate", "kubeadmcontrolplane/plain-cp", "example.com/touched=1")
		Eventually(func() string { return w.serial(ctx, p) }).WithTimeout(capiPatience).ShouldNot(BeElementOf(old, short))
		renewed := w.serial(ctx, p)
		p.gateway.Refuse(old)
		p.gateway.Refuse(short)

		agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}}
		Expect(p.inside(ctx).Delete(ctx, agent)).To(Succeed())
		Eventually(func() int { return p.asked(renewed) }).WithTimeout(capiPatience).Should(BeNumerically(">", 0))
		w.imported(ctx, p)
		Expect(p.inside(ctx).Get(ctx, client.ObjectKeyFromObject(agent), agent)).To(Succeed())
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
	})

	It("is reached with the kubeconfig that Cluster API has made anew", func(ctx context.Context) {
		old := w.serial(ctx, p)
		Expect(w.Client.Delete(ctx, p.kubeconfig())).To(Succeed())
		w.kubectl(ctx, p.key.Namespace, nil, "annotate", "--overwrite", "kubeadmcontrolplane/plain-cp", "example.com/touched=2")
		Eventually(func() string { return w.serial(ctx, p) }).WithTimeout(capiPatience).ShouldNot(BeElementOf(old, ""))
		renewed := w.serial(ctx, p)
		p.gateway.Refuse(old)
		Expect(p.inside(ctx).Delete(ctx, importing.NamespaceOf(importing.AgentNamespace))).To(Succeed())
		Eventually(func() int { return p.asked(renewed) }).WithTimeout(capiPatience).Should(BeNumerically(">", 0))
		w.imported(ctx, p)
	})

	It("keeps its record while its API is away", func(ctx context.Context) {
		w.outage(ctx, p, func() {
			// A cluster that is gone takes its agent along.
			w.Rancher.RemoveWorkload(p.key.String())
			Eventually(w.Reason(ctx, p.cluster)).Should(Equal("False/WorkloadUnreachable"))
			Eventually(w.state(ctx, p, clusterv1.ClusterRemoteConnectionProbeCondition)).WithTimeout(capiPatience).Should(Equal("False"))
			Eventually(w.state(ctx, p, clusterv1.ClusterControlPlaneAvailableCondition)).WithTimeout(capiPatience).Should(Equal("Unknown"))
			Expect(w.Reason(ctx, p.cluster)()).To(Equal("False/WorkloadUnreachable"))
		})
		w.connect(ctx, p)
		w.imported(ctx, p)
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
		Expect(w.V3Records(ctx, p.cluster)).To(And(HaveLen(1), HaveEach(HaveField("Name", id))))
		Expect(w.creations()).To(Equal(1))
	})

	It("is left alone while it is paused", func(ctx context.Context) {
		team := func() string { return w.V3Records(ctx, p.cluster)[0].Labels["team"] }
		w.kubectl(ctx, p.key.Namespace, nil, "patch", "cluster/plain", "--type=merge", `--patch={"spec":{"paused":true}}`)
		Eventually(w.state(ctx, p, clusterv1.PausedCondition)).Should(Equal("True"))
		w.kubectl(ctx, p.key.Namespace, nil, "label", "cluster/plain", "team=blue")
		Consistently(team).Should(BeEmpty())
		Expect(w.Reason(ctx, p.cluster)()).To(Equal("True/Imported"), "being paused does not disconnect a cluster")
		w.kubectl(ctx, p.key.Namespace, nil, "patch", "cluster/plain", "--type=merge", `--patch={"spec":{"paused":false}}`)
		Eventually(team).Should(Equal("blue"))
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
	})

	It("is unavailable once its record is deleted in Rancher, and available when it is imported again", func(ctx context.Context) {
		records := w.V3Records(ctx, p.cluster)
		Expect(w.Client.Delete(ctx, &records[0])).To(Succeed())
		Eventually(w.Reason(ctx, p.cluster)).Should(Equal("False/RemovedInRancher"))
		Eventually(w.available(ctx, p)).Should(Equal("False"))
		Eventually(func() error {
			return p.inside(ctx).Get(ctx, client.ObjectKey{Name: importing.AgentNamespace}, &corev1.Namespace{})
		}).Should(Satisfy(apierrors.IsNotFound))
		w.kubectl(ctx, p.key.Namespace, nil, "annotate", "cluster/plain", importing.ImportedKey+"-")
		w.imported(ctx, p)
		Eventually(w.available(ctx, p)).Should(Equal("True"))
		Expect(w.creations()).To(Equal(2))
	})

	It("goes, with its record, while its API goes first", func(ctx context.Context) { w.expectDeleted(ctx, p) })
}

// classCluster imports a Cluster that Cluster API makes from a ClusterClass.
func classCluster(world func() *capiWorld) {
	var (
		w *capiWorld
		p *provisioned
	)
	BeforeAll(func(ctx context.Context) {
		w = world()
		p = w.prepare(ctx, w.Namespace(ctx, nil), "classy")
	})
	It("is imported for the label of its namespace, when its API is back", func(ctx context.Context) {
		before := w.creations()
		class, err := capi.Class()
		w.apply(ctx, p.key.Namespace, class, err)
		manifest, err := capi.Topology(capi.Cluster{Name: p.key.Name, Port: p.gateway.Port(), ControlPlanes: 1, Workers: 1, Gates: []string{importing.Condition}})
		w.apply(ctx, p.key.Namespace, manifest, err)
		w.connect(ctx, p)
		Eventually(w.state(ctx, p, clusterv1.ClusterControlPlaneAvailableCondition)).WithTimeout(capiPatience).Should(Equal("True"))
		Expect(w.Reason(ctx, p.cluster)()).To(Equal("none"))
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).ShouldNot(Equal("True"), "a gate without condition")

		w.outage(ctx, p, func() {
			// Cluster API does not know yet.
			w.Choose(ctx, importing.NamespaceOf(p.key.Namespace), "true")
			Eventually(w.Reason(ctx, p.cluster)).Should(Equal("False/WorkloadUnreachable"))
		})
		w.imported(ctx, p)
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
		Expect(w.V3Records(ctx, p.cluster)).To(HaveLen(1))
		Expect(w.creations()).To(Equal(before + 1))
	})
	It("stays as it is when the topology is scaled", func(ctx context.Context) {
		Eventually(func() int { return w.Rancher.Reapplies(w.V3Records(ctx, p.cluster)[0].Name) }).Should(Equal(1))
		writes := len(w.writes())
		for _, path := range []string{"/spec/topology/controlPlane/replicas", "/spec/topology/workers/machineDeployments/0/replicas"} {
			w.kubectl(ctx, p.key.Namespace, nil, "patch", "cluster/"+p.key.Name, "--type=json", fmt.Sprintf(`--patch=[{"op":"replace","path":%q,"value":3}]`, path))
		}
		Eventually(func() int32 {
			return ptr.Deref(ptr.Deref(importing.Current(ctx, w.Client, p.cluster).Status.ControlPlane, clusterv1.ClusterControlPlaneStatus{}).AvailableReplicas, 0)
		}).WithTimeout(capiPatience).Should(BeEquivalentTo(3))
		Eventually(w.available(ctx, p)).WithTimeout(capiPatience).Should(Equal("True"))
		Expect(w.writes()[writes:]).To(BeEmpty(), "%s", importing.Listing(w.writes()[writes:]))
	})
	It("goes with its record", func(ctx context.Context) { w.expectDeleted(ctx, p) })
}
