package hostclaim_test

import (
	"bytes"
	"context"
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/internal/uninstall"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// uninstaller returns a user that may do what the chart lets the uninstaller do about HostClaims, and no more.
func (w *world) uninstaller(ctx context.Context) *rest.Config {
	GinkgoHelper()
	const name = "archelon.uninstall"
	lists := []string{"list", "patch"}
	w.create(
		ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "archelon-leader-election"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"metal3.io"}, Resources: []string{"hostclaims"}, Verbs: lists},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: lists},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: name}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	)
	who, err := w.plane.ServiceAccountConfig(ctx, system, name)
	Expect(err).NotTo(HaveOccurred())
	return who
}

// uninstalled runs the uninstaller and returns what it says.
func uninstalled(ctx context.Context, who *rest.Config) string {
	GinkgoHelper()
	opts := uninstall.NewOptions()
	opts.Instance, opts.InstanceNamespace, opts.OnlyHostClaims, opts.Yes = "archelon", system, true, true
	said := &bytes.Buffer{}
	Expect(uninstall.Run(ctx, who, opts, said)).To(Succeed(), said.String())
	return said.String()
}

var _ = Describe("When Archelon is uninstalled, claims", Ordered, ContinueOnFailure, func() {
	var here, there *world
	var metal3 *standin.Standin
	var who *rest.Config
	var t *tenant
	held := func(ctx context.Context, w *world, namespace, name string) func() bool {
		return func() bool {
			return slices.ContainsFunc(w.getClaim(ctx, namespace, name).Finalizers, func(f string) bool {
				return f == "hostclaims.metal3.io/baremetal" || f == "hostclaims.metal3.io/remote"
			})
		}
	}
	secretHeld := func(ctx context.Context) func() []string {
		return func() []string {
			secret := &corev1.Secret{}
			Expect(here.admin.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: "remote"}, secret)).To(Succeed())
			return secret.Finalizers
		}
	}
	gone := func(ctx context.Context, w *world, namespace, name string) {
		GinkgoHelper()
		Expect(w.admin.Delete(ctx, unstructuredClaim(namespace, name))).To(Succeed())
		Eventually(w.associated(ctx, namespace, name)).Should(ContainSubstring("not found"))
	}

	BeforeAll(func(ctx SpecContext) {
		here, there = newWorldOf(ctx, "uninstall-here", "hostclaim-remote"), newWorld(ctx, "uninstall-there")
		there.namespace(ctx, "infra")
		there.namespace(ctx, "team-a")
		metal3 = there.operate()
		who = there.uninstaller(ctx)
		t = newTenant(ctx, here, there, "a")
	})

	It("of kind baremetal keep their hosts as they are, can be deleted, and leave it to an administrator what becomes of the host then", func(ctx SpecContext) {
		for _, name := range []string{"stays", "goes", "leaving"} {
			there.host(ctx, "infra", name, func(h *bmov1.BareMetalHost) { h.Labels["only"] = name })
		}
		stop := there.start(ctx)
		for _, name := range []string{"stays", "goes", "leaving"} {
			there.claim(ctx, "team-a", name, "online: true\n"+image+"hostSelector: {matchLabels: {only: "+name+"}}\n")
			Eventually(func() bool { return there.getClaim(ctx, "team-a", name).Status.Ready }).Should(BeTrue())
		}
		// Its host cannot be cleaned while it is paused.
		there.changeHost(ctx, "infra", "leaving", func(h *bmov1.BareMetalHost) { h.Annotations[bmov1.PausedAnnotation] = "mine" })
		Expect(there.admin.Delete(ctx, unstructuredClaim("team-a", "leaving"))).To(Succeed())
		Eventually(func() any { return there.getHost(ctx, "infra", "leaving").Spec.Image }).Should(BeNil())
		stop()

		hosts := map[string]string{}
		for _, name := range []string{"stays", "goes", "leaving"} {
			hosts[name] = there.getHost(ctx, "infra", name).ResourceVersion
		}
		said := uninstalled(ctx, who)
		Expect(said).To(ContainSubstring(`team-a/leaving is being deleted and its host is not clean: nobody gets BareMetalHost "infra/leaving"`))
		Eventually(there.associated(ctx, "team-a", "leaving")).Should(ContainSubstring("not found"))
		Expect(held(ctx, there, "team-a", "stays")()).To(BeFalse())
		was := string(there.getClaim(ctx, "team-a", "goes").UID)
		gone(ctx, there, "team-a", "goes")
		for name, version := range hosts {
			host := there.getHost(ctx, "infra", name)
			Expect(host.ResourceVersion).To(Equal(version), "nothing is written to a host")
			Expect(host.Spec.ConsumerRef).NotTo(BeNil(), "nobody else is to get it")
		}
		Expect(uninstalled(ctx, who)).NotTo(ContainSubstring("HostClaims"))

		By("installing it again")
		there.changeHost(ctx, "infra", "leaving", func(h *bmov1.BareMetalHost) { delete(h.Annotations, bmov1.PausedAnnotation) })
		stop = there.start(ctx)
		defer stop()
		Eventually(there.consumer(ctx, "infra", "leaving")).Should(BeEmpty())
		Eventually(func() any { return there.getHost(ctx, "infra", "goes").Annotations }).Should(HaveKey("hostclaims.metal3.io/problem"))
		Expect(there.getHost(ctx, "infra", "goes").Spec.Image).NotTo(BeNil(), "the claim may be about to be restored")
		there.changeHost(ctx, "infra", "goes", func(h *bmov1.BareMetalHost) { h.Annotations["hostclaims.metal3.io/release"] = was })
		Eventually(there.consumer(ctx, "infra", "goes")).Should(BeEmpty())
		for _, name := range []string{"goes", "leaving"} {
			Expect(there.getHost(ctx, "infra", name).Spec.Image).To(BeNil())
		}
		Eventually(held(ctx, there, "team-a", "stays")).Should(BeTrue())
		Expect(there.getClaim(ctx, "team-a", "stays").Status.Ready).To(BeTrue())
		Expect(there.consumer(ctx, "infra", "stays")()).To(Equal("team-a/stays"))
		Expect(metal3.Provisioned("infra", "stays")).To(HaveLen(1), "what runs on it was not provisioned again")
		gone(ctx, there, "team-a", "stays")
	})

	It("of kind remote keep their claims in other clusters, and release the kubeconfigs", func(ctx SpecContext) {
		there.host(ctx, "infra", "far", func(h *bmov1.BareMetalHost) { h.Labels["only"] = "far" })
		defer there.start(ctx)()
		stop := here.startRemote(ctx)
		t.claim(ctx, "far", "online: true\n"+image+"hostSelector: {matchLabels: {only: far}}\n")
		Eventually(func() bool { return here.getClaim(ctx, t.namespace, "far").Status.Ready }).Should(BeTrue())
		Eventually(secretHeld(ctx)).Should(ContainElement("hostclaims.metal3.io/credentials"))
		target := t.target(ctx, "far")
		stop()

		hereToo := here.uninstaller(ctx)
		uninstalled(ctx, hereToo)
		Expect(held(ctx, here, t.namespace, "far")()).To(BeFalse())
		Expect(secretHeld(ctx)()).To(BeEmpty())
		Expect(t.target(ctx, "far").UID).To(Equal(target.UID))

		By("installing it again")
		stop = here.startRemote(ctx)
		Eventually(held(ctx, here, t.namespace, "far")).Should(BeTrue())
		Eventually(secretHeld(ctx)).Should(ContainElement("hostclaims.metal3.io/credentials"))
		Expect(t.target(ctx, "far").UID).To(Equal(target.UID))
		stop()

		By("deleting it while nobody is there")
		uninstalled(ctx, hereToo)
		gone(ctx, here, t.namespace, "far")
		Expect(here.admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "remote"}})).To(Succeed())
		Expect(t.targets(ctx, "far")).To(HaveLen(1), "somebody has to delete it there")
	})
})
