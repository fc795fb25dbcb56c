package edge_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
		rancher  *rancherCluster
		site     *management
		workload *env.ControlPlane
		stop     func() error
	)

	BeforeAll(func(ctx SpecContext) {
		rancher = newRancherCluster(ctx)
		workload = rancher.workload(ctx)
		site = newManagement(ctx, rancher, "site")
		site.connect(ctx, rancher.admit(ctx, site.UID))
		stop = site.run(ctx)
	})

	It("imports, keeps its Rancher clusters apart, and deletes them", func(ctx SpecContext) {
		cluster := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		records := rancher.records(ctx, site, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).To(ContainElement(apart.Finalizer))

		By("naming a CAPI Cluster that Rancher's operations do not find, for it is not in Rancher's cluster")
		Expect(records[0].Labels).To(HaveKeyWithValue("cluster-api.cattle.io/capi-cluster-owner", cluster.Name))
		inRancher := client.ObjectKey{Namespace: records[0].Labels["cluster-api.cattle.io/capi-cluster-owner-ns"], Name: cluster.Name}
		Expect(rancher.Client.Get(ctx, inRancher, &clusterv1.Cluster{})).To(Or(Satisfy(apierrors.IsNotFound), Satisfy(meta.IsNoMatchError)))

		By("writing nothing in Rancher's cluster once it is settled")
		before := len(written(requests(rancher.Management, account(site))))
		touched := cluster.DeepCopy()
		touched.Annotations = map[string]string{"example.com/touched": "true"}
		Expect(site.Client.Patch(ctx, touched, client.MergeFrom(cluster))).To(Succeed())
		Consistently(func() int { return len(written(requests(rancher.Management, account(site)))) }).Should(Equal(before))

		By("taking the Rancher cluster along with the CAPI Cluster")
		Expect(site.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(site.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, site, cluster) }).Should(BeEmpty())
	})

	It("removes from Rancher what is deleted there or not selected any more, and imports it again", func(ctx SpecContext) {
		cluster := site.Create(ctx, "team-a", "again", workload)
		records := func() []managementv3.Cluster { return rancher.records(ctx, site, cluster) }
		Eventually(site.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		former := records()
		Expect(former).To(HaveLen(1))

		By("deleting the Rancher cluster")
		Expect(rancher.Client.Delete(ctx, &former[0])).To(Succeed())
		Eventually(site.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		Eventually(records).Should(BeEmpty())
		Eventually(site.K(ctx).Update(cluster, func() { delete(cluster.Annotations, importedAnnotation) })).Should(Succeed())
		Eventually(records).Should(HaveExactElements(HaveField("UID", Not(Equal(former[0].UID)))))

		By("changing the label of the CAPI Cluster")
		Eventually(site.K(ctx).Update(cluster, func() { cluster.Labels[apart.ImportLabel] = "false" })).Should(Succeed())
		Eventually(records).Should(BeEmpty())
		Eventually(site.K(ctx).Object(cluster)).Should(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
		Eventually(site.K(ctx).Update(cluster, func() { cluster.Labels[apart.ImportLabel] = "true" })).Should(Succeed())
		Eventually(records).Should(HaveLen(1))
		Expect(site.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})

	It("keeps the Rancher cluster of a CAPI Cluster that vanishes", Label("nightly"), func(ctx SpecContext) {
		cluster := site.Create(ctx, "team-a", "gone", workload)
		records := func() []managementv3.Cluster { return rancher.records(ctx, site, cluster) }
		Eventually(records).Should(HaveExactElements(HaveField("Finalizers", ContainElement(apart.Finalizer))))
		Eventually(site.K(ctx).Object(cluster)).Should(HaveField("Finalizers", ContainElement(apart.Finalizer)))
		kept := records()[0]
		Eventually(func() error { // The import may add its finalizer again between the two requests.
			released := cluster.DeepCopy()
			if err := site.Client.Patch(ctx, released, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				return err
			}
			return site.Client.Delete(ctx, released, client.Preconditions{ResourceVersion: &released.ResourceVersion})
		}).Should(Succeed())
		Eventually(site.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		Consistently(records).Should(HaveExactElements(And(HaveField("UID", kept.UID), HaveField("DeletionTimestamp", BeNil()))))

		By("releasing it when it is deleted in Rancher")
		Expect(rancher.Client.Delete(ctx, &kept)).To(Succeed())
		Eventually(records).Should(BeEmpty())
	})

	It("takes over new credentials without a restart", func(ctx SpecContext) {
		site.connect(ctx, rancher.account(ctx, site.UID, "second"))
		rancher.revoke(ctx, "first")
		Eventually(site.Reason(ctx, site.Create(ctx, "team-a", "two", workload))).Should(Equal("True/Imported"))
	})

	It("shares Rancher with another management cluster that has the same names", func(ctx SpecContext) {
		other := newManagement(ctx, rancher, "other")
		other.connect(ctx, rancher.admitted(ctx, other.UID, "other"))
		end := other.run(ctx)
		same := other.Create(ctx, "team-a", "two", workload)
		Eventually(other.Reason(ctx, same)).Should(Equal("False/DisplayNameTaken"))
		Expect(rancher.records(ctx, other, same)).To(BeEmpty())

		By("telling them apart once the administrator has named the management cluster")
		Expect(end()).To(Succeed())
		other.values = values()
		other.values["managementCluster"] = map[string]any{"name": "other"}
		end = other.run(ctx)
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, other, same) }).Should(
			HaveExactElements(HaveField("Spec.DisplayName", "two-other")))
		first := rancher.records(ctx, site, same)
		Expect(first).To(HaveExactElements(HaveField("Spec.DisplayName", "two")))

		By("deleting its own alone")
		Expect(other.Client.Delete(ctx, same)).To(Succeed())
		Eventually(func() []managementv3.Cluster { return rancher.records(ctx, other, same) }).Should(BeEmpty())
		still := rancher.records(ctx, site, same)
		Expect(still).To(HaveLen(1))
		Expect(still[0].UID).To(Equal(first[0].UID))
		Expect(still[0].DeletionTimestamp.IsZero()).To(BeTrue())
		Expect(end()).To(Succeed())
	})

	It("may write the Rancher clusters of its own management cluster and no others", func(ctx SpecContext) {
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		stolen, err := client.New(rancher.account(ctx, site.UID, "stolen"), client.Options{Scheme: known})
		Expect(err).NotTo(HaveOccurred())

		foreign := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-bcdfg"}}
		Expect(rancher.Client.Create(ctx, foreign)).To(Succeed())
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
		Expect(rancher.Client.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(rancher.Client.Patch(ctx, foreign, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		})
		cluster := &clusterv1.Cluster{}
		Expect(site.Client.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: "two"}, cluster)).To(Succeed())
		Expect(cluster.Finalizers).To(ContainElement(apart.Finalizer))
		Expect(stop()).To(Succeed())
		config, err := site.ServiceAccountConfig(ctx, system, "archelon.uninstall")
		Expect(err).NotTo(HaveOccurred())
		Expect(uninstall.Run(ctx, config, uninstallation(), GinkgoWriter)).To(Succeed())
		held := &coordinationv1.Lease{}
		Expect(rancher.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: seat.LeaseName(types.UID(site.UID))}, held)).To(Succeed())
		Expect(held.Spec).To(BeZero())
		Expect(site.K(ctx).Object(cluster)()).To(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))))
		records := rancher.records(ctx, site, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Finalizers).NotTo(ContainElement(apart.Finalizer))
		Expect(rancher.K(ctx).Object(foreign)()).To(HaveField("Finalizers", ContainElement(apart.Finalizer)))
	})
})

// uninstallation is that of the release.
func uninstallation() *uninstall.Options {
	opts := uninstall.NewOptions()
	opts.Timeout, opts.Yes = 2*time.Minute, true
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
