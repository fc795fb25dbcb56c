package edge_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
)

var _ = Describe("A management cluster whose Rancher is in another one", Ordered, func() {
	var (
		hub      *hub
		site     *management
		workload *env.ControlPlane
		stop     func() error
	)

	BeforeAll(func(ctx SpecContext) {
		hub = newHub(ctx)
		var err error
		workload, err = hub.Workload(ctx, env.Options{Name: "workload"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			hub.Rancher.RemoveWorkload("workload")
			Expect(workload.Stop()).To(Succeed())
		})
		site = newManagement(ctx, hub, "site")
		site.connect(ctx, hub.admit(ctx, site.UID))
		stop = site.run(ctx)
	})

	It("imports, keeps its Rancher clusters apart, and deletes them", func(ctx SpecContext) {
		cluster := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := hub.records(ctx, site, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).To(ContainElement(apart.Finalizer))

		By("writing nothing in Rancher's cluster once it is settled")
		before := len(written(requests(hub.Management, account(site))))
		touched := cluster.DeepCopy()
		touched.Annotations = map[string]string{"example.com/touched": "true"}
		Expect(site.Client.Patch(ctx, touched, client.MergeFrom(cluster))).To(Succeed())
		Consistently(func() int { return len(written(requests(hub.Management, account(site)))) }).Should(Equal(before))

		By("taking the Rancher cluster along with the CAPI Cluster")
		Expect(site.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(site.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(func() []managementv3.Cluster { return hub.records(ctx, site, cluster) }).Should(BeEmpty())
	})

	It("takes over new credentials without a restart", func(ctx SpecContext) {
		site.connect(ctx, hub.account(ctx, site.UID, "second"))
		hub.revoke(ctx, "first")
		Eventually(site.Reason(ctx, site.Create(ctx, "team-a", "two", workload))).Should(Equal("True/Imported"))
	})

	It("shares Rancher with another management cluster that has the same names", func(ctx SpecContext) {
		other := newManagement(ctx, hub, "other")
		other.connect(ctx, hub.admitted(ctx, other.UID, "other"))
		end := other.run(ctx)
		same := other.Create(ctx, "team-a", "two", workload)
		Eventually(other.Reason(ctx, same)).Should(Equal("False/DisplayNameTaken"))
		Expect(hub.records(ctx, other, same)).To(BeEmpty())

		By("telling them apart once the administrator has named the management cluster")
		Expect(end()).To(Succeed())
		other.values = values()
		other.values["managementCluster"] = map[string]any{"name": "other"}
		end = other.run(ctx)
		Eventually(func() []managementv3.Cluster { return hub.records(ctx, other, same) }).Should(
			HaveExactElements(HaveField("Spec.DisplayName", "two-other")))
		first := hub.records(ctx, site, same)
		Expect(first).To(HaveExactElements(HaveField("Spec.DisplayName", "two")))

		By("deleting its own alone")
		Expect(other.Client.Delete(ctx, same)).To(Succeed())
		Eventually(func() []managementv3.Cluster { return hub.records(ctx, other, same) }).Should(BeEmpty())
		still := hub.records(ctx, site, same)
		Expect(still).To(HaveLen(1))
		Expect(still[0].UID).To(Equal(first[0].UID))
		Expect(still[0].DeletionTimestamp.IsZero()).To(BeTrue())
		Expect(end()).To(Succeed())
	})

	It("may write the Rancher clusters of its own management cluster and no others", func(ctx SpecContext) {
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		stolen, err := client.New(hub.account(ctx, site.UID, "stolen"), client.Options{Scheme: known})
		Expect(err).NotTo(HaveOccurred())

		foreign := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-bcdfg"}}
		Expect(hub.Client.Create(ctx, foreign)).To(Succeed())
		forbidden := func(err error) { GinkgoHelper(); Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err) }
		forbidden(stolen.Delete(ctx, foreign))
		claimed := foreign.DeepCopy()
		claimed.Labels = map[string]string{apart.OriginLabel: site.UID}
		forbidden(stolen.Patch(ctx, claimed, client.MergeFrom(foreign)))
		forbidden(stolen.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-bcdfh"}}))
		forbidden(stolen.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "local", Labels: map[string]string{apart.OriginLabel: site.UID}}}))
	})

	It("lets go of what it holds in both clusters when it is uninstalled, and of nothing else", func(ctx SpecContext) {
		foreign := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-bcdfk", Finalizers: []string{apart.Finalizer}, Labels: map[string]string{uidLabel: "of-another", apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "two"},
		}}
		Expect(hub.Client.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.Client.Patch(ctx, foreign, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		})
		cluster := &clusterv1.Cluster{}
		Expect(site.Client.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: "two"}, cluster)).To(Succeed())
		Expect(cluster.Finalizers).To(ContainElement(apart.Finalizer))
		Expect(stop()).To(Succeed())
		config, err := site.ServiceAccountConfig(ctx, system, "archelon.uninstall")
		Expect(err).NotTo(HaveOccurred())
		Expect(uninstall.Run(ctx, config, uninstallation(), GinkgoWriter)).To(Succeed())
		held := &coordinationv1.Lease{}
		Expect(hub.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: seat.LeaseName(types.UID(site.UID))}, held)).To(Succeed())
		Expect(held.Spec).To(BeZero())
		Expect(site.K(ctx).Object(cluster)()).To(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
		records := hub.records(ctx, site, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).NotTo(ContainElement(apart.Finalizer))
		Expect(hub.K(ctx).Object(foreign)()).To(HaveField("Finalizers", ContainElement(apart.Finalizer)))
	})
})

// uninstallation is that of the release.
func uninstallation() *uninstall.Options {
	opts := uninstall.NewOptions()
	opts.Timeout = 2 * time.Minute
	opts.Instance, opts.InstanceNamespace, opts.RancherKubeconfig = "archelon", system, system+"/"+kubeconfig
	return opts
}

// account is the user of a management cluster in Rancher's.
func account(of *management) string { return "system:serviceaccount:" + system + ":edge-" + of.UID }

// written are requests that change something. Leases are renewed all the time, and Events belong to nobody else.
func written(of []auditv1.Event) []auditv1.Event {
	return slices.DeleteFunc(of, func(e auditv1.Event) bool {
		return slices.Contains([]string{"get", "list", "watch"}, e.Verb) || e.ObjectRef != nil && slices.Contains([]string{"leases", "events"}, e.ObjectRef.Resource)
	})
}
