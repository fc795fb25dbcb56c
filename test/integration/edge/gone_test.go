package edge_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
		page, section := "examples/remote-rancher/README.md", "## When the management cluster is gone for good"
		list := apart.Commands(page, section, "custom-columns")
		remove, release := apart.Commands(page, section, "kubectl delete"), apart.Commands(page, section, "kubectl replace")
		run := func(commands string, variables ...string) string {
			GinkgoHelper()
			return apart.Run(ctx, rancher.Management, commands, append(variables, "ORIGIN="+gone)...)
		}

		By("changing nothing while it has access")
		for _, commands := range []string{release, remove} {
			Expect(run(commands)).To(ContainSubstring("the access has not ended"))
			Expect(rancher.K(ctx).Object(kept)()).To(held)
		}

		By("listing its Rancher clusters when its access has ended")
		objects := apart.Render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": gone}})
		for i := range objects {
			Expect(client.IgnoreNotFound(rancher.Client.Delete(ctx, &objects[i]))).To(Succeed())
		}
		Expect(run(list)).To(And(ContainSubstring("c-aaaaa"), ContainSubstring("shown-c-aaaaa"), Not(ContainSubstring("c-zzzzz"))))
		Expect(rancher.K(ctx).Object(kept)()).To(held)

		By("changing nothing for an administrator who cannot see whether it has access")
		blind := "KUBECONFIG=" + blindKubeconfig(ctx, rancher)
		for _, commands := range []string{release, remove} {
			Expect(run(commands, blind)).To(And(ContainSubstring("forbidden"), ContainSubstring("cannot be seen")))
			Expect(rancher.K(ctx).Object(kept)()).To(held)
		}

		By("releasing them")
		run(release)
		Expect(rancher.K(ctx).Object(kept)()).To(And(released, HaveField("DeletionTimestamp", BeNil())))

		By("deleting them")
		deleted := create("c-bbbbb", gone)
		run(remove)
		Expect(rancher.K(ctx).Object(deleted)()).To(HaveField("DeletionTimestamp", Not(BeNil())))
		run(release)
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

// blindKubeconfig returns the path of a kubeconfig with all permissions for v3 Clusters, and no others.
func blindKubeconfig(ctx context.Context, rancher *rancherCluster) string {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "blind"}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"management.cattle.io"}, Resources: []string{"clusters"}, Verbs: []string{"get", "list", "update", "patch", "delete"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
		},
	} {
		Expect(rancher.Client.Create(ctx, object)).To(Succeed())
	}
	config, err := rancher.Management.ServiceAccountConfig(ctx, meta.Namespace, meta.Name)
	Expect(err).NotTo(HaveOccurred())
	raw, err := rancher.Management.KubeconfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "blind")
	Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
	return path
}
