package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

// Scenario: Rancher is in another cluster, and does not answer any more. CAPI Clusters can be deleted all the same, and
// their Rancher clusters stay until a person deletes them.
var _ = Describe("A Rancher in another cluster that is away", Ordered, func() {
	const away = 4 * time.Second
	var (
		rancher            *rancherCluster
		site               *management
		workload           *env.ControlPlane
		stop               func() error
		one, two, namesake *clusterv1.Cluster
		record             managementv3.Cluster
	)
	soon := func(o *options.Options) { o.RancherAway = away }
	held := HaveField("Finalizers", ContainElement(apart.Finalizer))
	// untouched fails unless the Rancher cluster that stayed behind is as it was.
	untouched := func(ctx context.Context) {
		GinkgoHelper()
		Consistently(rancher.K(ctx).Object(record.DeepCopy())).Should(And(
			HaveField("UID", record.UID), HaveField("DeletionTimestamp", BeNil()), HaveField("Spec.DisplayName", record.Spec.DisplayName),
			HaveField("Labels", And(HaveKeyWithValue(uidLabel, string(one.UID)), HaveKeyWithValue(apart.OriginLabel, site.UID))),
		))
	}
	// create creates a CAPI Cluster that the import holds, and returns its Rancher cluster.
	create := func(ctx context.Context, name string) (*clusterv1.Cluster, managementv3.Cluster) {
		GinkgoHelper()
		cluster := site.Create(ctx, "team-a", name, workload)
		records := func() []managementv3.Cluster { return rancher.records(ctx, site, cluster) }
		Eventually(records).Should(HaveLen(1))
		Eventually(site.K(ctx).Object(cluster)).Should(held)
		return cluster, records()[0]
	}

	BeforeAll(func(ctx SpecContext) {
		rancher = newRancherCluster(ctx)
		workload = rancher.workload(ctx)
		site = newManagement(ctx, rancher, "site")
		site.connect(ctx, rancher.admit(ctx, site.UID))
		stop = site.run(ctx, soon)
		one, record = create(ctx, "one")
	})

	It("holds up no deletion while it refuses our account, and tenants learn nothing of that account", func(ctx SpecContext) {
		restore := rancher.refuse(ctx, site.UID)
		Expect(site.Client.Delete(ctx, one)).To(Succeed())
		Eventually(site.Reason(ctx, one)).Should(Equal("False/Deleting"))
		message := site.message(ctx, one)
		Expect(message).To(ContainSubstring("Rancher refuses"))
		Expect(message).NotTo(Or(ContainSubstring("edge-"), ContainSubstring("127.0.0.1"), ContainSubstring("another")))

		By("releasing it after a while, with an Event before that")
		Eventually(site.K(ctx).Get(one)).Should(Satisfy(apierrors.IsNotFound))
		Expect(site.events(ctx, "team-a", "ReleasedWithoutRancher")).To(HaveExactElements(And(
			HaveField("InvolvedObject.Name", "one"), HaveField("Type", corev1.EventTypeWarning),
			HaveField("Message", And(ContainSubstring(record.Name), Not(ContainSubstring("edge-")), Not(ContainSubstring("127.0.0.1")))),
		)))
		Expect(site.afterEvent("team-a", "rancher-outage."+string(one.UID))).To(ContainElement("patch clusters one"))

		restore()
	})

	It("leaves what stayed behind to a person, and says so", func(ctx SpecContext) {
		Eventually(countOrphans).Should(BeEquivalentTo(1))
		two, _ = create(ctx, "two")
		Expect(countOrphans()).To(BeEquivalentTo(1))
		untouched(ctx)
		Expect(site.orphans(ctx)).To(HaveExactElements(And(HaveField("RancherCluster", "v3/"+record.Name), HaveField("CAPICluster", "gone"))))
	})

	It("does not let a namesake have or delete what stayed behind", func(ctx SpecContext) {
		Expect(site.Client.Delete(ctx, builder.KubeconfigSecret("team-a", "one", nil))).To(Succeed())
		namesake = site.Create(ctx, "team-a", "one", workload, func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{"archelon.io/rancher-cluster": "v3/" + record.Name}
		})
		Eventually(site.Reason(ctx, namesake)).Should(Equal("False/ForeignRancherCluster"))
		untouched(ctx)
		Expect(countOrphans()).To(BeEquivalentTo(1))
		Expect(site.orphans(ctx)).To(HaveExactElements(HaveField("RancherCluster", "v3/"+record.Name)))
		Expect(site.Client.Delete(ctx, namesake)).To(Succeed())
		Eventually(site.K(ctx).Get(namesake)).Should(Satisfy(apierrors.IsNotFound))
		untouched(ctx)

		By("one of another namespace")
		namesake = site.Create(ctx, "team-b", "one", workload)
		Eventually(site.Reason(ctx, namesake)).Should(Equal("False/DisplayNameTaken"))
		untouched(ctx)

		By("importing that when a person has deleted what stayed behind")
		Expect(rancher.Client.Delete(ctx, record.DeepCopy())).To(Succeed())
		Eventually(rancher.K(ctx).Get(record.DeepCopy())).Should(Satisfy(apierrors.IsNotFound))
		Eventually(countOrphans).Should(BeZero())
		Expect(site.orphans(ctx)).To(BeEmpty())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, site, namesake) }).Should(
			HaveExactElements(HaveField("Spec.DisplayName", "one")))
	})

	It("holds up no deletion where it has never answered since the start, and releases nothing at once", func(ctx SpecContext) {
		Expect(stop()).To(Succeed())
		Expect(rancher.Management.Suspend()).To(Succeed())
		DeferCleanup(rancher.Management.Resume)
		foreign := site.heldFor(ctx, "foreign", func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{"archelon.io/instance": "elsewhere/other"}
		})
		moving := site.heldFor(ctx, "moving", func(c *clusterv1.Cluster) {
			c.Annotations, c.Spec.Paused = map[string]string{"archelon.io/instance": system + "/archelon"}, new(true)
		})
		for _, cluster := range []*clusterv1.Cluster{two, foreign, moving} {
			Expect(site.Client.Delete(ctx, cluster)).To(Succeed())
		}
		begun := time.Now()
		_, stop = site.begin(ctx, soon)
		Eventually(site.K(ctx).Get(two)).Should(Satisfy(apierrors.IsNotFound))
		Expect(time.Since(begun)).To(BeNumerically(">=", away))

		By("releasing neither what is another instance's nor what is paused")
		Consistently(site.K(ctx).Object(foreign)).Should(held)
		Expect(site.K(ctx).Object(moving)()).To(held)
		Expect(stop()).To(Succeed())
	})

	It("can be left alone by an uninstallation", func(ctx SpecContext) {
		Expect(site.K(ctx).Object(namesake)()).To(held)
		Expect(rancher.Management.Suspend()).To(Succeed())
		DeferCleanup(rancher.Management.Resume)
		Expect(site.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: kubeconfig}})).To(Succeed())
		config, err := site.ServiceAccountConfig(ctx, system, "archelon.uninstall")
		Expect(err).NotTo(HaveOccurred())
		opts, out := uninstallation(), &bytes.Buffer{}
		opts.LeaveRancher = true
		Expect(uninstall.Run(ctx, config, opts, out)).To(Succeed())
		Expect(out.String()).To(ContainSubstring("kubectl get clusters.management.cattle.io --selector=archelon.io/management-cluster=" + site.UID))
		Expect(site.K(ctx).Object(namesake)()).NotTo(held)
		leases := &coordinationv1.LeaseList{}
		Expect(site.Client.List(ctx, leases, client.InNamespace(system))).To(Succeed())
		Expect(leases.Items).NotTo(ContainElement(HaveField("Name", BeElementOf("archelon-leader-election", seat.MemoryName("archelon")))))
	})
})

// refuse takes the permissions of the account of a management cluster away, until restore is called.
func (r *rancherCluster) refuse(ctx context.Context, uid string) (restore func()) {
	GinkgoHelper()
	binding := &rbacv1.ClusterRoleBinding{}
	Expect(r.Client.Get(ctx, client.ObjectKey{Name: "archelon-edge-" + uid}, binding)).To(Succeed())
	Expect(r.Client.Delete(ctx, binding)).To(Succeed())
	Eventually(func(g Gomega) { // An API server takes a moment to know.
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + system + ":edge-" + uid,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Group: "management.cattle.io", Resource: "clusters"},
		}}
		g.Expect(r.Client.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeFalse())
	}).Should(Succeed())
	return func() {
		GinkgoHelper()
		binding.ResourceVersion = ""
		Expect(r.Client.Create(ctx, binding)).To(Succeed())
	}
}

// heldFor creates a CAPI Cluster with the finalizer of the import.
func (m *management) heldFor(ctx context.Context, name string, change func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	cluster := builder.Cluster("team-a", name)
	cluster.Finalizers = []string{apart.Finalizer}
	change(cluster)
	Expect(m.Client.Create(ctx, cluster)).To(Succeed())
	return cluster
}

// message returns that of the condition of a CAPI Cluster.
func (m *management) message(ctx context.Context, cluster *clusterv1.Cluster) string {
	GinkgoHelper()
	found := &clusterv1.Cluster{}
	Expect(m.Client.Get(ctx, client.ObjectKeyFromObject(cluster), found)).To(Succeed())
	return conditions.GetMessage(found, apart.Condition)
}

// events returns the Events of a namespace with a reason.
func (m *management) events(ctx context.Context, namespace, reason string) []corev1.Event {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(m.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Reason != reason })
}

// afterEvent returns what the manager has written in a namespace since it created an Event of a name.
func (m *management) afterEvent(namespace, event string) (written []string) {
	GinkgoHelper()
	created := false
	for _, e := range requests(m.ControlPlane, managerOfCAPI) {
		switch {
		case e.ObjectRef == nil || e.ObjectRef.Namespace != namespace:
		case e.Verb == "create" && e.ObjectRef.Resource == "events" && e.ObjectRef.Name == event:
			created = true
		case created && !slices.Contains([]string{"get", "list", "watch"}, e.Verb):
			written = append(written, e.Verb+" "+e.ObjectRef.Resource+" "+e.ObjectRef.Name)
		}
	}
	return written
}

// orphans returns the Rancher clusters without a CAPI Cluster, as the command shows them.
func (m *management) orphans(ctx context.Context) []status.Cluster {
	GinkgoHelper()
	raw, err := m.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
	cmd, out := status.Command(), &bytes.Buffer{}
	cmd.SetArgs([]string{"--kubeconfig=" + path, "-A", "--orphans", "--rancher-kubeconfig=" + system + "/" + kubeconfig, "-o", "json"})
	cmd.SetOut(out)
	Expect(cmd.ExecuteContext(ctx)).To(Succeed())
	var document struct{ Items []status.Cluster }
	Expect(json.Unmarshal(out.Bytes(), &document)).To(Succeed())
	return document.Items
}

// countOrphans returns how many of these the manager counts, which was started last.
func countOrphans() float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "archelon_orphaned_rancher_clusters" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
