package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Scenario: a release of the chart, from its installation by Helm to its end, with clusters that
// are imported all the while.
var _ = Describe("A release", Label("kind"), Ordered, func() {
	const count = 20
	var (
		r        = &releases{}
		release  helm.Release
		clusters []*clusterv1.Cluster
		before   map[string]string
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		release = r.release(ctx, "archelon", nil)
		for i := range count {
			clusters = append(clusters, r.light(ctx, []string{watch1, watch2}[i%2], fmt.Sprintf("cluster-%02d", i), importing.Selected))
		}
	})
	// expectUndisturbed asserts that an operation costs no agent its connection and no cluster its record.
	expectUndisturbed := func(ctx context.Context, operate func() error) {
		GinkgoHelper()
		lost := r.watchConnections(ctx, clusters)
		Expect(operate()).To(Succeed())
		Expect(lost()).To(BeEmpty(), "agents that were disconnected")
		Expect(r.records(ctx)).To(Equal(before))
	}

	It("imports clusters when it is installed", func(ctx context.Context) {
		Expect(r.helm.Install(ctx, release)).To(Succeed())
		r.expectImported(ctx, clusters...)
		before = r.records(ctx)
		Expect(before).To(HaveLen(count))
		r.expectLawful(release)
	})

	It("keeps every record and every connection in an upgrade with other features, and in a rollback", func(ctx context.Context) {
		changed := release
		changed.Values = map[string]any{
			"turtles": map[string]any{"adopt": true}, "metrics": map[string]any{"enabled": false}, "excludedNamespaces": []any{watch3},
			"import": map[string]any{"concurrency": 3}, "replicaCount": 1, "admissionPolicy": map[string]any{"enabled": false},
			"features": map[string]any{"managementv3-cluster": map[string]any{"enabled": true}},
		}
		expectUndisturbed(ctx, func() error { return r.helm.Upgrade(ctx, changed) })
		late := r.light(ctx, watch1, "late", importing.Selected)
		r.expectImported(ctx, late)
		r.drop(ctx, late)
		r.expectLawful(release)
		expectUndisturbed(ctx, func() error { return r.helm.Rollback(ctx, release, 1) })
		late = r.light(ctx, watch3, "late", importing.Selected)
		r.expectImported(ctx, late)
		r.drop(ctx, late)
		r.expectLawful(release)
	})

	It("is not uninstalled as long as its finalizers cannot be removed, and works on after a rollback", Label("nightly"), func(ctx context.Context) {
		Expect(r.Client.Create(ctx, obstacle())).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(r.Client.Delete(ctx, obstacle()))).To(Succeed())
		})
		quick := release
		quick.Values = map[string]any{"uninstall": map[string]any{"timeoutSeconds": 12}}
		Expect(r.helm.Upgrade(ctx, quick)).To(Succeed())
		lost := r.watchConnections(ctx, clusters)
		Expect(r.helm.Uninstall(ctx, quick)).To(MatchError(MatchRegexp("archelon-uninstall-see-helm-get-notes .*[fF]ailed")))
		Expect(lost()).To(BeEmpty())
		Expect(r.Client.Delete(ctx, obstacle())).To(Succeed())
		back := release
		back.Args = helm.OverOthers() // The uninstaller has stopped the manager.
		expectUndisturbed(ctx, func() error { return r.helm.Rollback(ctx, back, 1) })
		late := r.light(ctx, watch1, "late", importing.Selected)
		r.expectImported(ctx, late)
		r.drop(ctx, late)
	})

	It("holds nothing any more when it is uninstalled, though the uninstaller is killed, and leaves Rancher clusters and agents alone", func(ctx context.Context) {
		old := r.leftBehind(ctx, watch1, "left-central")
		undisturbed := before
		before = r.records(ctx)
		Expect(before).To(HaveLen(count + 1))
		began := metav1.NowMicro()
		killed := make(chan error, 1)
		go func() {
			for ctx.Err() == nil {
				if pod := r.uninstallPod(ctx, release); pod != nil {
					killed <- r.node.Kill(client.ObjectKeyFromObject(pod))
					return
				}
			}
		}()
		expectUndisturbed(ctx, func() error { return r.helm.Uninstall(ctx, release) })
		Expect(<-killed).To(Succeed())
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.left(ctx, release)).To(BeEmpty())
		r.expectLawful(release)
		r.uninstalled(ctx, release, began)
		r.forget(ctx, old)
		before = undisturbed

		By("CAPI clusters that can be deleted without it")
		Expect(r.Client.Delete(ctx, clusters[0])).To(Succeed())
		Eventually(r.K(ctx).Get(clusters[0])).Should(Satisfy(apierrors.IsNotFound))
		clusters = clusters[1:]
	})

	It("goes on with the same records when it is installed again, as an isolated instance", Label("nightly"), func(ctx context.Context) {
		release.Values = map[string]any{"namespaces": []any{watch1, watch2, "comes-later"}}
		Eventually(func() map[string]string { return r.records(ctx) }).Should(HaveLen(count - 1))
		before = r.records(ctx)
		expectUndisturbed(ctx, func() error { return r.helm.Install(ctx, release) })
		for _, cluster := range clusters {
			Eventually(func() []string { return importing.Current(ctx, r.Client, cluster).Finalizers }).Should(ContainElement(importing.Finalizer))
		}
		Expect(r.records(ctx)).To(Equal(before))

		By("a namespace that did not exist, which the next upgrade grants")
		Expect(r.Client.Create(ctx, importing.NamespaceOf("comes-later"))).To(Succeed())
		expectUndisturbed(ctx, func() error { return r.helm.Upgrade(ctx, release) })
		late := r.light(ctx, "comes-later", "late", importing.Selected)
		r.expectImported(ctx, late)

		By("a namespace that is left out")
		r.drop(ctx, late)
		release.Values = map[string]any{"namespaces": []any{watch1, watch2}}
		expectUndisturbed(ctx, func() error { return r.helm.Upgrade(ctx, release) })
		Eventually(r.K(ctx).Get(roleBindingIn("comes-later"))).Should(Satisfy(apierrors.IsNotFound))
		r.expectLawful(release)
	})

	It("refuses to become a central instance, which nobody would release its RoleBindings for", Label("nightly"), func(ctx context.Context) {
		central := release
		central.Values = map[string]any{"replicaCount": 2} // Without values Helm takes those of the release.
		Expect(r.helm.Upgrade(ctx, central)).To(MatchError(ContainSubstring("uninstall it and install it again")))
	})

	It("deletes its Rancher clusters when it is told to", Label("nightly"), func(ctx context.Context) {
		release.Values = with(release.Values, map[string]any{"uninstall": map[string]any{"deleteRancherClusters": true}})
		Expect(r.helm.Upgrade(ctx, release)).To(Succeed())
		clusters = append(clusters, r.leftBehind(ctx, watch1, "left-isolated"))
		began := metav1.NowMicro()
		r.withoutBindings(ctx, release, []string{watch1, watch2}, func() { Expect(r.helm.Uninstall(ctx, release)).To(Succeed()) })
		r.uninstalled(ctx, release, began)
		Eventually(r.NothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(r.left(ctx, release)).To(BeEmpty())
		r.expectLawful(release)
		for _, cluster := range clusters {
			Expect(importing.Current(ctx, r.Client, cluster).Annotations).NotTo(HaveKey(importing.RecordKey))
		}
	})
})

// Scenario: several releases of the chart in one cluster.
var _ = Describe("Releases side by side", Label("kind", "nightly"), Ordered, func() {
	var (
		r             = &releases{}
		one, two, all helm.Release
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		one = r.release(ctx, "archelon1", map[string]any{"namespaces": []any{watch1}, "replicaCount": 1})
		two = r.release(ctx, "archelon2", map[string]any{"namespaces": []any{watch2}, "replicaCount": 1, "features": map[string]any{"managementv3-cluster": map[string]any{"enabled": true}}})
		all = r.release(ctx, "archelon", map[string]any{
			"excludedNamespaces": []any{watch1, watch2}, "replicaCount": 1, "uninstall": map[string]any{"deleteRancherClusters": true},
		})
		for _, release := range []helm.Release{one, two, all} {
			r.install(ctx, release)
		}
	})

	It("each import what is theirs", func(ctx context.Context) {
		clusters := r.each(ctx, "shared")
		r.expectImported(ctx, clusters...)
		for i, name := range []string{"archelon1", "archelon2", "archelon"} {
			Expect(importing.Current(ctx, r.Client, clusters[i]).Annotations).To(HaveKeyWithValue(instanceKey, instanceOf(name)))
		}
		Expect(r.Look(ctx).Records("v3", clusters[1])).To(HaveLen(1))
	})

	It("are refused when they would work in the same namespaces, or not know of each other", func(ctx context.Context) {
		Expect(r.helm.Install(ctx, r.release(ctx, "second", nil))).To(MatchError(ContainSubstring("release archelon in namespace archelon-system already works in all namespaces")))
		Expect(r.helm.Install(ctx, r.release(ctx, "third", map[string]any{"namespaces": []any{watch1}}))).To(MatchError(ContainSubstring("archelon-isolated")))
		Expect(r.left(ctx, helm.Release{Name: "second"})).To(BeEmpty())
		apart := r.release(ctx, "fourth", nil)
		apart.Values = map[string]any{"namespaces": []any{watch3}}
		Expect(r.helm.Install(ctx, apart)).To(MatchError(ContainSubstring("they would not know of each other: set leaderElection.namespace to archelon-system")))
	})

	It("go one after the other without touching what is another's", func(ctx context.Context) {
		w := r.Look(ctx)
		Expect(r.helm.Uninstall(ctx, one)).To(Succeed())
		for i := range w.Clusters {
			held := ContainElement(importing.Finalizer)
			if w.Clusters[i].Namespace == watch1 {
				held = Not(held)
			}
			Expect(importing.Current(ctx, r.Client, &w.Clusters[i]).Finalizers).To(held, w.Clusters[i].Namespace)
		}
		r.leftBehind(ctx, watch3, "left-behind")
		began := metav1.NowMicro()
		Expect(r.helm.Uninstall(ctx, all)).To(Succeed())
		r.uninstalled(ctx, all, began)
		others := And(HaveLen(2), HaveKey(watch1+"/shared"), HaveKey(watch2+"/shared"))
		Eventually(func() map[string]string { return r.records(ctx) }).WithTimeout(2*patience).Should(others, "its own are deleted, as it was told")
		Expect(r.helm.Uninstall(ctx, two)).To(Succeed())
		Expect(r.held(ctx)).To(BeEmpty())
		for _, release := range []helm.Release{one, two, all} {
			Expect(r.left(ctx, release)).To(BeEmpty())
			r.expectLawful(release)
		}
	})
})

// obstacle is a webhook that refuses every change of a CAPI cluster, because nobody answers it.
func obstacle() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: objectMeta("", "obstacle"),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "obstacle.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, APIVersions: []string{"v1beta2"}, Resources: []string{"clusters"}},
			}},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail),
		}},
	}
}
