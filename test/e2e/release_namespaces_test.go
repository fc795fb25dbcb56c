package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Scenario: the namespaces of an isolated release come and go between its installation and its end. What Helm granted
// the uninstaller was right at the installation only.
var _ = Describe("An isolated release whose namespaces come and go", Label("nightly"), Ordered, func() {
	const later, going = "comes-later", "goes-away"
	var (
		r               = &releases{}
		release         helm.Release
		settled, doomed *clusterv1.Cluster
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		Expect(r.Client.Create(ctx, importing.NamespaceOf(going))).To(Succeed())
		release = r.release(ctx, "archelon", map[string]any{
			"namespaces": []any{watch1, watch2, later, going}, "replicaCount": 1,
		})
		r.install(ctx, release)
		settled, doomed = r.light(ctx, watch1, "settled", importing.Selected), r.light(ctx, going, "doomed", importing.Selected)
		r.expectImported(ctx, settled, doomed)

		By("a namespace that is made and one that is made anew, in which nobody has rights")
		Expect(r.Client.Create(ctx, importing.NamespaceOf(later))).To(Succeed())
		Expect(r.Client.Delete(ctx, importing.NamespaceOf(watch2))).To(Succeed())
		Eventually(r.K(ctx).Get(importing.NamespaceOf(watch2))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		Expect(r.Client.Create(ctx, importing.NamespaceOf(watch2))).To(Succeed())
	})

	It("is uninstalled once the manager has let the clusters of a namespace go that is being deleted", func(ctx context.Context) {
		records := r.records(ctx)
		delete(records, client.ObjectKeyFromObject(doomed).String())
		Expect(r.Client.Create(ctx, obstacle())).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(r.Client.Delete(ctx, obstacle()))).To(Succeed())
		})
		Expect(r.Client.Delete(ctx, importing.NamespaceOf(going))).To(Succeed())
		uninstaller := roleBindingIn(going)
		uninstaller.Name = "archelon-uninstall"
		Eventually(r.K(ctx).Get(uninstaller)).Should(Satisfy(apierrors.IsNotFound))

		ended := make(chan error, 1)
		go func() { ended <- r.helm.Uninstall(ctx, release) }()
		Eventually(func() string {
			if pod := r.uninstallPod(ctx, release); pod != nil {
				return r.node.Logs(client.ObjectKeyFromObject(pod))
			}
			return ""
		}).Should(And(
			ContainSubstring("namespace goes-away is being deleted and the manager, as long as it runs, lets its clusters go"),
			// The namespaces are looked at in the order of their names: no try gets beyond the one that is being deleted.
			ContainSubstring("Skipped namespace "+later+": there is no RoleBinding archelon-isolated in it"),
		))
		deployment := &appsv1.Deployment{ObjectMeta: objectMeta(release.Namespace, release.Name)}
		Consistently(func() *int32 { return importing.Current(ctx, r.Client, deployment).Spec.Replicas }).Should(HaveValue(BeEquivalentTo(1)))
		Expect(r.held(ctx)).To(ContainElement(ContainSubstring(going)))

		Expect(r.Client.Delete(ctx, obstacle())).To(Succeed())
		Eventually(ended).WithTimeout(3 * patience).Should(Receive(BeNil()))
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.left(ctx, release)).To(BeEmpty())
		Expect(r.records(ctx)).To(Equal(records))
		Eventually(r.K(ctx).Get(importing.NamespaceOf(going))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
	})
})

// Scenario: the namespace of a release is one of those that it works in. The uninstaller has two RoleBindings there:
// one that Helm grants with the release, and one of the hook.
var _ = Describe("An isolated release that works in its own namespace", Ordered, func() {
	var (
		r       = &releases{}
		release helm.Release
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		release = r.release(ctx, "archelon", map[string]any{"namespaces": []any{"archelon-system"}, "replicaCount": 1})
		r.install(ctx, release)
	})

	It("imports a cluster there and holds nothing any more when it is uninstalled", func(ctx context.Context) {
		r.expectImported(ctx, r.light(ctx, release.Namespace, "at-home", importing.Selected))
		records := r.records(ctx)
		Expect(r.helm.Uninstall(ctx, release)).To(Succeed())
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.left(ctx, release)).To(BeEmpty())
		Expect(r.records(ctx)).To(Equal(records))
		r.expectLawful(release)
	})
})
