package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// The manager is installed before CAPI and Rancher, and two replicas take turns.
var _ = Describe("Start", Ordered, func() {
	var (
		s             *stage.Stage
		first, losing *stage.Manager
		apart         = stage.Instance{Name: "isolated", Isolated: true}
	)
	BeforeAll(func(ctx context.Context) {
		management, err := env.Start(ctx, env.Options{Name: "start"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(management.Stop)
		s = &stage.Stage{Management: management, Client: importing.AdminClient(management), Values: importing.Values()}
		Expect(s.Prepare(ctx)).To(Succeed())
		first = startReplica(ctx, s)

		Expect(s.Install(ctx, apart)).To(Succeed())
		for _, name := range []string{watch1, watch2} {
			Expect(s.Client.Create(ctx, importing.NamespaceOf(name))).To(Succeed())
		}
		Expect(s.Grant(ctx, apart, watch1, watch2)).To(Succeed())
		losing, err = s.StartInstance(ctx, apart, manager, GinkgoWriter, flags("namespace", watch1, watch2)...)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(losing.Stop)
	})

	It("waits for missing CRDs and says for which", func(ctx context.Context) {
		Eventually(first.Logs).Should(And(
			MatchRegexp(`"Waiting for CRDs".* controller="rancher-import"`),
			ContainSubstring("clusters.cluster.x-k8s.io"),
			ContainSubstring("settings.management.cattle.io"),
		))
		// It begins again when the other instance has named some of its namespaces.
		Eventually(func() error { return first.Ready(ctx) }).Should(MatchError(ContainSubstring("[-]caches failed")))
	})

	It("loses rights in a namespace, of several, while it waits", func(ctx context.Context) {
		Eventually(losing.Logs).Should(ContainSubstring("Waiting for CRDs"))
		// It has asked for its rights, and does not watch its RoleBindings yet.
		Expect(s.Client.Patch(ctx, roleBindingIn(watch2), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(s.Client.Delete(ctx, roleBindingIn(watch2))).To(Succeed())
	})

	It("says that CAPI is too old, where it has no v1beta2", func(ctx context.Context) {
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		for _, crd := range crds {
			crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != "v1beta1" })
			crd.Spec.Versions[0].Storage = true
		}
		install(s, crds)
		const cause = "CAPI serves v1beta1 only (CRD clusters.cluster.x-k8s.io); Archelon needs v1beta2 (CAPI 1.11 or newer"
		Eventually(first.Logs).Should(ContainSubstring(cause))
		Expect(first.Ready(ctx)).To(MatchError(ContainSubstring("[-]crds-rancher-import failed")))
		Expect(answers(ctx, first, "/readyz/crds-rancher-import")()).To(MatchError(ContainSubstring(cause)))
	})

	It("still waits, for Rancher alone, when CAPI is there", func(ctx context.Context) {
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		install(s, crds)
		Eventually(first.Logs).Should(MatchRegexp(`Waiting for CRDs.* missing="clusterregistrationtokens`))
		Expect(first.Ready(ctx)).To(HaveOccurred())
	})

	It("gets ready when Rancher's settings can be read", func(ctx context.Context) {
		crds, err := rancher.CRDs(true)
		Expect(err).NotTo(HaveOccurred())
		install(s, crds)
		Eventually(first.Logs).Should(ContainSubstring("Caches are synced"))
		Expect(first.Ready(ctx)).To(MatchError(ContainSubstring("[-]rancher-settings failed")))

		standin, err := rancher.New(rancher.DefaultOptions(s.Management.Config))
		Expect(err).NotTo(HaveOccurred())
		Expect(standin.Start(ctx)).To(Succeed())
		DeferCleanup(standin.Stop)
		Eventually(first.Ready).WithContext(ctx).Should(Succeed())
	})

	It("goes on without the namespace whose rights went unseen", func(ctx context.Context) {
		Eventually(losing.Logs).WithTimeout(2 * patience).Should(MatchRegexp(`may not work in some of its namespaces any more.*"` + watch2 + `"`))
		Eventually(losing.Ready).WithContext(ctx).Should(Succeed())
	})

	It("hands over to a replica that is ready before it leads", func(ctx context.Context) {
		const working = `"Starting workers" controller="rancher-import"`
		second := startReplica(ctx, s)
		Eventually(second.Ready).WithContext(ctx).Should(Succeed())
		leader := holder(ctx, s)
		Expect(leader).NotTo(BeEmpty())
		Expect(second.Logs()).NotTo(ContainSubstring(working))

		// A clean stop gives the Lease back, so that nobody waits for its end.
		Expect(first.Stop()).To(Succeed())
		Eventually(second.Logs).Should(ContainSubstring(working))
		Expect(holder(ctx, s)).NotTo(Equal(leader))
	})
})

func startReplica(ctx context.Context, s *stage.Stage) *stage.Manager {
	GinkgoHelper()
	m, err := s.StartManager(ctx, manager, GinkgoWriter, "--leader-elect", "--leader-elect-namespace="+stage.SystemNamespace)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(m.Stop)
	return m
}

func install(s *stage.Stage, crds []*apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	_, err := envtest.InstallCRDs(s.Management.Config, envtest.CRDInstallOptions{CRDs: crds, Scheme: runtime.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
}

// holder returns the identity that holds the Lease.
func holder(ctx context.Context, s *stage.Stage) string {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(s.Client.Get(ctx, client.ObjectKey{Namespace: stage.SystemNamespace, Name: "archelon-leader-election"}, lease)).To(Succeed())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
