package edge_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/forget"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
)

// Scenario: a management cluster is gone for good, with its CAPI Clusters and the Archelon in it. A person lets go of
// what it has left in Rancher's.
var _ = Describe("A management cluster that is gone for good", Label("nightly"), Ordered, func() {
	var (
		hub   *hub
		site  *management
		other *managementv3.Cluster
		stop  func() error
	)
	// records are the Rancher clusters of the management cluster.
	records := func(ctx context.Context, uid string) []managementv3.Cluster {
		GinkgoHelper()
		list := &managementv3.ClusterList{}
		Expect(hub.Client.List(ctx, list, client.MatchingLabels{apart.OriginLabel: uid})).To(Succeed())
		return list.Items
	}
	run := func(ctx context.Context, uid string, change func(*forget.Options)) (string, error) {
		GinkgoHelper()
		opts := forget.Options{UID: types.UID(uid), Timeout: time.Minute}
		change(&opts)
		out := &bytes.Buffer{}
		err := forget.Run(ctx, hub.Management.Config, opts, out)
		GinkgoWriter.Println(out.String())
		return out.String(), err
	}
	list := func(*forget.Options) {}
	yes := func(o *forget.Options) { o.Yes = true }
	remove := func(o *forget.Options) { o.Yes, o.Delete = true, true }

	BeforeAll(func(ctx SpecContext) {
		hub = newHub(ctx)
		workload, err := hub.Workload(ctx, env.Options{Name: "workload-of-gone"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			hub.Rancher.RemoveWorkload("workload-of-gone")
			Expect(workload.Stop()).To(Succeed())
		})
		site = newManagement(ctx, hub, "gone")
		site.connect(ctx, hub.admit(ctx, site.UID))
		stop = site.run(ctx)
		first := site.Create(ctx, "team-a", "one", workload)
		Eventually(site.Reason(ctx, first)).Should(Equal("True/Imported"))
		for namespace, name := range map[string]string{"team-a": "two", "team-b": "three"} {
			cluster := site.Create(ctx, namespace, name, workload)
			Eventually(func() []managementv3.Cluster { return hub.records(ctx, site, cluster) }).Should(HaveLen(1))
		}

		other = &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-zzzzz", Finalizers: []string{apart.Finalizer},
			Labels: map[string]string{
				apart.OriginLabel: "another", uidLabel: "of-another", apart.OwnerNSLabel: "team-a", apart.OwnerLabel: "one",
			},
		}}
		Expect(hub.Client.Create(ctx, other)).To(Succeed())
		Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
	})
	AfterEach(func(ctx SpecContext) {
		Expect(hub.K(ctx).Object(other.DeepCopy())()).To(And(
			HaveField("Finalizers", ContainElement(apart.Finalizer)), HaveField("Labels", other.Labels), HaveField("DeletionTimestamp", BeNil()),
		), "the Rancher cluster of another management cluster")
	})

	It("is not forgotten while an Archelon serves it", func(ctx SpecContext) {
		for _, how := range []func(*forget.Options){list, yes, remove} {
			_, err := run(ctx, site.UID, how)
			Expect(err).To(MatchError(ContainSubstring("it renews Lease " + system + "/archelon-" + site.UID)))
		}
		_, err := run(ctx, site.UID, func(o *forget.Options) { o.Yes, o.IgnoreSeat = true, true })
		Expect(err).To(MatchError(ContainSubstring("ClusterRoleBinding archelon-edge-"+site.UID)), "what stands in the way besides")
		Expect(stop()).To(Succeed())
	})

	It("is not forgotten as long as it is let in, and never the cluster that Rancher is in", func(ctx SpecContext) {
		for _, how := range []func(*forget.Options){list, yes, remove} {
			_, err := run(ctx, site.UID, how)
			Expect(err).To(MatchError(ContainSubstring("ClusterRoleBinding archelon-edge-" + site.UID)))
		}
		own := apart.Namespace("kube-system")
		Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
		_, err := run(ctx, string(own.UID), yes)
		Expect(err).To(MatchError(ContainSubstring("this is the cluster of that UID")))
		for _, record := range records(ctx, site.UID) {
			Expect(record.Finalizers).To(ContainElement(apart.Finalizer))
		}
	})

	It("is listed first, and nothing is written", func(ctx SpecContext) {
		objects := apart.Render(ctx, "edge", map[string]any{
			"role": "rancher-side", "managementCluster": map[string]any{"uid": site.UID},
		})
		for i := range objects {
			Expect(client.IgnoreNotFound(hub.Client.Delete(ctx, &objects[i]))).To(Succeed())
		}
		versions := func() map[string]string {
			found := map[string]string{}
			for _, record := range records(ctx, site.UID) {
				found[record.Name] = string(record.UID)
				Expect(record.Finalizers).To(ContainElement(apart.Finalizer))
				Expect(record.Labels).To(HaveKey(uidLabel))
			}
			return found
		}
		before := versions()
		Expect(before).To(HaveLen(3))
		said, err := run(ctx, site.UID, list)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range append(slices.Collect(maps.Keys(before)),
			"team-a/one", "team-a/two", "team-b/three", "3 of 3 Rancher clusters would change") {
			Expect(said).To(ContainSubstring(name))
		}
		said, err = run(ctx, site.UID, func(o *forget.Options) { o.Delete = true })
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("delete it"))
		Expect(versions()).To(Equal(before))
	})

	It("ends the deletion of one, and releases the others, which stay in Rancher", func(ctx SpecContext) {
		all := records(ctx, site.UID)
		stuck := &all[0]
		Expect(hub.Client.Delete(ctx, stuck)).To(Succeed())
		Consistently(hub.K(ctx).Get(stuck)).Should(Succeed())

		_, err := run(ctx, site.UID, yes)
		Expect(err).NotTo(HaveOccurred())
		Eventually(hub.K(ctx).Get(stuck)).Should(Satisfy(apierrors.IsNotFound))
		for i := range all[1:] {
			kept := &all[i+1]
			Expect(hub.K(ctx).Object(kept)()).To(And(HaveField("Finalizers", Not(ContainElement(apart.Finalizer))), HaveField("DeletionTimestamp", BeNil())))
			for _, label := range []string{apart.OriginLabel, apart.OwnerLabel, apart.OwnerNSLabel, uidLabel} {
				Expect(kept.Labels).NotTo(HaveKey(label))
			}
		}

		By("having nothing to do the next time")
		said, err := run(ctx, site.UID, yes)
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("Nothing to do"))
	})

	It("has its Rancher clusters deleted if that is asked for", func(ctx SpecContext) {
		for _, name := range []string{"c-ddddd", "c-fffff"} {
			Expect(hub.Client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
				Name: name, Finalizers: []string{apart.Finalizer},
				Labels: map[string]string{
					apart.OriginLabel: site.UID, uidLabel: "of-" + name, apart.OwnerNSLabel: "team-a", apart.OwnerLabel: name,
				},
			}})).To(Succeed())
		}
		_, err := run(ctx, site.UID, remove)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []managementv3.Cluster { return records(ctx, site.UID) }).Should(BeEmpty())
		said, err := run(ctx, site.UID, remove)
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("Nothing to do"))
	})
})
