package chart_test

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
)

var _ = Describe("A release that is changed", Ordered, ContinueOnFailure, func() {
	const namespace, tenant, going = "archelon-system", "tenant-a", "goes-away"
	var (
		admin client.Client
		cli   *helm.Helm
	)
	BeforeAll(func(ctx SpecContext) {
		capi, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		plane, err := env.Start(ctx, env.Options{Name: "chart", CRDs: capi, ControllerManager: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(plane.Stop)
		admin, err = client.New(plane.Config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{namespace, tenant, going} {
			Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}
		kubeconfig, err := plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		cli, err = helm.New(kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cli.Close)
	})
	release := func(values map[string]any) helm.Release {
		return helm.Release{Name: "archelon", Namespace: namespace, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values}
	}
	// uninstall leaves the Job out, which nobody would run.
	uninstall := func(ctx context.Context) {
		GinkgoHelper()
		all := release(nil)
		all.Args = []string{"--no-hooks"}
		Expect(cli.Uninstall(ctx, all)).To(Succeed())
	}

	It("gets no other names when it is isolated, and nothing has been changed then", func(ctx SpecContext) {
		isolated := map[string]any{"namespaces": []any{tenant}}
		Expect(cli.Install(ctx, release(isolated))).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			uninstall(ctx)
			letGo(ctx, admin, tenant)
		})
		for _, name := range []string{"fullnameOverride", "nameOverride"} {
			renamed := release(map[string]any{"namespaces": []any{tenant}, name: "importer"})
			Expect(cli.Upgrade(ctx, renamed)).To(MatchError(ContainSubstring("the objects of this release are called archelon-system.archelon")))
		}
		deployments := &appsv1.DeploymentList{}
		Expect(admin.List(ctx, deployments, client.InNamespace(namespace))).To(Succeed())
		Expect(deployments.Items).To(HaveLen(1))
		Expect(cli.Upgrade(ctx, release(isolated))).To(Succeed())
	})

	It("keeps its manager when it is to become the Rancher side", func(ctx SpecContext) {
		Expect(cli.Install(ctx, release(nil))).To(Succeed())
		DeferCleanup(uninstall)
		other := release(map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": "7d9bb2b5-b3c1-4ce3-a49c-2b2a1a7a3b60"}})
		Expect(cli.Upgrade(ctx, other)).To(MatchError(ContainSubstring("role: this release is a manager (Deployment archelon)")))
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "archelon"}, &appsv1.Deployment{})).To(Succeed())

		By("installing the Rancher side as a release of its own")
		other.Name = "edge"
		Expect(cli.Install(ctx, other)).To(Succeed())
		back := other
		back.Values = map[string]any{"role": "manager"}
		Expect(cli.Upgrade(ctx, back)).To(MatchError(ContainSubstring("role: this release is the Rancher side of a management cluster")))
		Expect(cli.Uninstall(ctx, other)).To(Succeed())
	})

	It("leaves its RoleBindings behind when it is rolled back from isolated to central, until they are let go by hand", func(ctx SpecContext) {
		Expect(cli.Install(ctx, release(nil))).To(Succeed())
		DeferCleanup(uninstall)
		Expect(cli.Upgrade(ctx, release(map[string]any{"namespaces": []any{tenant}}))).To(Succeed())
		Expect(cli.Rollback(ctx, release(nil), 1)).To(Succeed())
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "archelon-isolated"}}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		Expect(binding.DeletionTimestamp).NotTo(BeNil())
		Expect(binding.Finalizers).To(ConsistOf("archelon.io/role-in-use"))
		letGo(ctx, admin, tenant)
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(binding), binding))).To(BeTrue())
	})

	It("is not rolled back when a namespace is gone, but goes back by an upgrade", func(ctx SpecContext) {
		values := func(replicas int) map[string]any {
			return map[string]any{"namespaces": []any{tenant, going}, "replicaCount": replicas}
		}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "archelon"}}
		replicas := func() int32 {
			GinkgoHelper()
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			return *deployment.Spec.Replicas
		}
		Expect(cli.Install(ctx, release(values(2)))).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			uninstall(ctx)
			letGo(ctx, admin, tenant)
		})
		Expect(cli.Upgrade(ctx, release(values(1)))).To(Succeed())
		gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: going}}
		Expect(admin.Delete(ctx, gone)).To(Succeed())
		letGo(ctx, admin, going)
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(gone), gone))
		}).WithTimeout(time.Minute).Should(BeTrue())

		Expect(cli.Rollback(ctx, release(nil), 1)).To(MatchError(ContainSubstring(`namespaces "goes-away" not found`)))
		Expect(replicas()).To(BeEquivalentTo(1))
		Expect(cli.Upgrade(ctx, release(values(2)))).To(Succeed())
		Expect(replicas()).To(BeEquivalentTo(2))
	})
})

// letGo takes the finalizer off the RoleBinding of an isolated release, as its manager does.
func letGo(ctx context.Context, admin client.Client, namespace string) {
	GinkgoHelper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "archelon-isolated"}}
	Expect(admin.Patch(ctx, binding, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}
