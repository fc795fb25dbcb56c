package edge_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/apart"
)

// Scenario: a management cluster is gone for good, with its CAPI Clusters and its Archelon. An administrator runs the
// commands of the page in Rancher's cluster.
var _ = Describe("A management cluster that is gone for good", Label("nightly"), func() {
	const gone, other = "0f6e6d5a-3b1f-4a51-8a53-6d3c8d8e3a01", "0f6e6d5a-3b1f-4a51-8a53-6d3c8d8e3a02"

	It("has its Rancher clusters released or deleted by the commands of the page, once its access has ended", func(ctx SpecContext) {
		rancher := newRancherCluster(ctx)
		create := func(name, origin string) *managementv3.Cluster {
			GinkgoHelper()
			cluster := &managementv3.Cluster{
				ObjectMeta: metav1.ObjectMeta{
					Name: name, Finalizers: []string{apart.Finalizer, "example.com/stays"},
					Labels: map[string]string{
						apart.OriginLabel: origin, uidLabel: "of-" + name, apart.OwnerNSLabel: "team-a", apart.OwnerLabel: name, "cluster-api.cattle.io/owned": "", "team": "a",
					},
				},
				Spec: managementv3.ClusterSpec{DisplayName: "shown-" + name},
			}
			Expect(rancher.Client.Create(ctx, cluster)).To(Succeed())
			return cluster
		}
		released := And(
			HaveField("Finalizers", And(Not(ContainElement(apart.Finalizer)), ContainElement("example.com/stays"))),
			HaveField("Labels", And(HaveKeyWithValue("team", "a"), Not(HaveKey(apart.OriginLabel)), Not(HaveKey(uidLabel)),
				Not(HaveKey(apart.OwnerLabel)), Not(HaveKey(apart.OwnerNSLabel)), Not(HaveKey("cluster-api.cattle.io/owned")))),
		)
		held := And(HaveField("Finalizers", ContainElement(apart.Finalizer)), HaveField("Labels", HaveKey(apart.OriginLabel)), HaveField("DeletionTimestamp", BeNil()))
		kept, foreign := create("c-aaaaa", gone), create("c-zzzzz", other)
		rancher.admit(ctx, gone)
		page := apart.Gone()
		run := func(commands string) string {
			GinkgoHelper()
			return apart.Run(ctx, rancher.Management, commands, gone)
		}

		By("releasing nothing while it has access")
		run(page.Release)
		Expect(rancher.K(ctx).Object(kept)()).To(held)

		By("listing its Rancher clusters when its access has ended")
		objects := apart.Render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": gone}})
		for i := range objects {
			Expect(client.IgnoreNotFound(rancher.Client.Delete(ctx, &objects[i]))).To(Succeed())
		}
		Expect(run(page.List)).To(And(ContainSubstring("c-aaaaa"), ContainSubstring("shown-c-aaaaa"), Not(ContainSubstring("c-zzzzz"))))
		Expect(rancher.K(ctx).Object(kept)()).To(held)

		By("releasing them")
		run(page.Release)
		Expect(rancher.K(ctx).Object(kept)()).To(And(released, HaveField("DeletionTimestamp", BeNil())))

		By("deleting them")
		deleted := create("c-bbbbb", gone)
		run(page.Delete)
		Expect(rancher.K(ctx).Object(deleted)()).To(HaveField("DeletionTimestamp", Not(BeNil())))
		run(page.Release)
		unpin(ctx, rancher, deleted)
		Eventually(rancher.K(ctx).Get(deleted)).Should(Satisfy(apierrors.IsNotFound))
		Expect(rancher.K(ctx).Object(foreign)()).To(held, "the Rancher cluster of another management cluster")
	})
})

// unpin removes all finalizers.
func unpin(ctx context.Context, rancher *rancherCluster, cluster *managementv3.Cluster) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(rancher.Client.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
}
