package hostclaim_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rolekeeper"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// permissionSpecs need a cluster whose namespaces nobody removes.
func permissionSpecs(world func() *world) {
	It("keeps the permissions in a namespace that is deleted until it is gone, and the clock wakes nobody", func(ctx SpecContext) {
		const namespace = "ending"
		w := world()
		crds, err := rancher.CRDs(true)
		Expect(err).NotTo(HaveOccurred())
		_, err = envtest.InstallCRDs(w.plane.Config, envtest.CRDInstallOptions{CRDs: crds})
		Expect(err).NotTo(HaveOccurred())
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		Expect(rbacv1.AddToScheme(known)).To(Succeed())
		mgr, err := ctrl.NewManager(w.plane.Config, ctrl.Options{
			Scheme: known, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		Expect(err).NotTo(HaveOccurred())
		own, err := cache.New(w.plane.Config, cache.Options{Scheme: known, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.Add(own)).To(Succeed())
		watcher, err := client.NewWithWatch(w.plane.Config, client.Options{
			Scheme: known, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		})
		Expect(err).NotTo(HaveOccurred())
		reviews, err := kubernetes.NewForConfig(w.plane.Config)
		Expect(err).NotTo(HaveOccurred())
		scope, err := shard.New([]string{namespace}, nil)
		Expect(err).NotTo(HaveOccurred())
		w.namespace(ctx, namespace)
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "archelon-isolated", Finalizers: []string{"archelon.io/role-in-use"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		}
		w.create(ctx, binding)
		w.claim(ctx, namespace, "c", "kind: nobodys\n")
		Expect(w.admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Expect(w.admin.Delete(ctx, binding)).To(Succeed())

		keeper := &rolekeeper.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Watcher: watcher, Bindings: own, Scope: scope, Lost: func() {},
			Reviews: reviews.AuthorizationV1().SelfSubjectAccessReviews(), Holdings: hold.All(),
			Self: instance.ID{Namespace: system, Name: account},
		}
		running, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(running) }()
		defer func() {
			stop()
			Eventually(ended).Should(Receive(BeNil()))
		}()
		Expect(own.WaitForCacheSync(ctx)).To(BeTrue()) // It has started then.
		Expect(keeper.SetupWithManager(running, mgr, own)).To(Succeed())
		is := func() string {
			return string(apierrors.ReasonForError(w.admin.Get(ctx, client.ObjectKeyFromObject(binding), &rbacv1.RoleBinding{})))
		}
		Consistently(is).Should(BeEmpty())
		Expect(w.admin.Delete(ctx, unstructuredClaim(namespace, "c"))).To(Succeed())
		Eventually(is).Should(Equal("NotFound"))
	})
}
