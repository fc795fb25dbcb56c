package hostclaim_test

import (
	"context"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// faultSpecs are about what goes wrong between two clusters that mean well.
func faultSpecs(worlds func() (here, there *world)) {
	// newBound returns a tenant with a source that has a host of its own.
	newBound := func(ctx context.Context, name string) *tenant {
		GinkgoHelper()
		here, there := worlds()
		t := newTenant(ctx, here, there, name)
		there.host(ctx, "infra", name, func(h *bmov1.BareMetalHost) { h.Labels["only"] = name })
		t.claim(ctx, "c", "online: true\nhostSelector: {matchLabels: {only: "+name+"}}\n")
		Eventually(t.condition(ctx, "c", "Associated")).Should(Equal("True BareMetalHostAssociated"))
		Eventually(func() *bool { return here.getClaim(ctx, t.namespace, "c").Status.PoweredOn }).Should(HaveValue(BeTrue()))
		Eventually(t.synced(ctx, "c")).Should(Equal(inStep))
		return t
	}
	finalizers := func(ctx context.Context, t *tenant) func() []string {
		return func() []string {
			secret := &corev1.Secret{}
			if err := t.here.admin.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: "remote"}, secret); err != nil {
				return []string{string(apierrors.ReasonForError(err))}
			}
			return secret.Finalizers
		}
	}

	It("keeps what it knows while the other cluster is silent, and holds nobody up", func(ctx SpecContext) {
		t, other := newBound(ctx, "silent"), newBound(ctx, "lively")
		l := newLine(t.there.plane.Config.Host)
		t.credentials(ctx, "remote", l.over(t.kubeconfig))
		Eventually(func() string { return t.here.getClaim(ctx, t.namespace, "c").Status.Remote.Server }).
			Should(ContainSubstring(l.listener.Addr().String()), "the same claim by another address")
		Expect(t.synced(ctx, "c")()).To(Equal(inStep))
		before := t.here.getClaim(ctx, t.namespace, "c").Status

		l.hush()
		t.change(ctx, "c", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False RemoteUnreachable"))
		for range 3 {
			other.change(ctx, "c", func(c *metal3v1.HostClaim) { c.Spec.Online = new(!*c.Spec.Online) })
			wanted := *other.here.getClaim(ctx, other.namespace, "c").Spec.Online
			Eventually(func() bool { return *other.target(ctx, "c").Spec.Online }).Should(Equal(wanted))
		}
		after := t.here.getClaim(ctx, t.namespace, "c").Status
		Expect(after.LastUpdated).To(Equal(before.LastUpdated))
		Expect(after.Addresses).To(Equal(before.Addresses))
		Expect(t.condition(ctx, "c", "Associated")()).To(Equal("True BareMetalHostAssociated"))

		l.speak()
		Eventually(t.synced(ctx, "c")).Should(Equal(inStep))
		Eventually(func() bool { return *t.target(ctx, "c").Spec.Online }).Should(BeFalse())
		Expect(t.targets(ctx, "c")).To(HaveLen(1))
	})

	It("goes on with another kubeconfig, and without permissions changes nothing", func(ctx SpecContext) {
		t := newBound(ctx, "rotated")
		was := t.target(ctx, "c")
		By("withdrawing the permissions")
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: t.user, Name: "archelon"}}
		Expect(t.there.admin.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		withdrawn := binding.DeepCopy()
		Expect(t.there.admin.Delete(ctx, binding)).To(Succeed())
		t.change(ctx, "c", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False CredentialsInvalid"))
		Expect(t.target(ctx, "c").Generation).To(Equal(was.Generation))
		withdrawn.ResourceVersion = ""
		t.there.create(ctx, withdrawn)

		By("revoking the token, and writing another one")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.user, Name: "archelon"}}
		Expect(t.there.admin.Delete(ctx, account)).To(Succeed())
		account.ResourceVersion, account.UID = "", ""
		t.there.create(ctx, account)
		t.credentials(ctx, "remote", t.newKubeconfig(ctx))
		Eventually(t.synced(ctx, "c")).Should(Equal(inStep))
		Eventually(func() bool { return *t.target(ctx, "c").Spec.Online }).Should(BeFalse())
		Expect(t.target(ctx, "c").UID).To(Equal(was.UID))
	})

	It("creates no second claim where the credentials come to lead", func(ctx SpecContext) {
		t := newBound(ctx, "moved")
		other := newTenant(ctx, t.here, t.there, "elsewhere")
		t.credentials(ctx, "remote", other.kubeconfig)
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False RemoteIdentityChanged"))
		Expect(other.targets(ctx, "c")).To(BeEmpty())
		list := &metal3v1.HostClaimList{}
		Expect(t.there.admin.List(ctx, list, client.InNamespace(other.user))).To(Succeed())
		Expect(list.Items).To(BeEmpty())
		Expect(t.condition(ctx, "c", "Associated")()).To(Equal("True BareMetalHostAssociated"))
		t.credentials(ctx, "remote", t.kubeconfig)
		Eventually(t.synced(ctx, "c")).Should(Equal(inStep))
	})

	It("is deleted when the other cluster can be reached again, or is told not to wait", func(ctx SpecContext) {
		t := newBound(ctx, "stuck")
		t.secret(ctx, "data", map[string][]byte{"value": []byte("x")})
		t.change(ctx, "c", func(c *metal3v1.HostClaim) { c.Spec.UserData = userData("data") })
		Eventually(t.copies(ctx)).Should(Equal("userdata: x"))
		t.here.claim(ctx, t.namespace, "left", "kind: remote\nargs: {real-kind: baremetal, credentials: remote}\nhostSelector: {matchLabels: {only: nothing}}\n")
		Eventually(t.synced(ctx, "left")).Should(Equal(inStep))
		Expect(finalizers(ctx, t)()).To(ConsistOf("hostclaims.metal3.io/credentials"))

		good := t.kubeconfig
		t.credentials(ctx, "remote", []byte(strings.ReplaceAll(string(good), "https://127.0.0.1:", "https://127.0.0.1:1")))
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False "))
		t.remove(ctx, "c")
		t.remove(ctx, "left")
		Eventually(t.synced(ctx, "c")).Should(ContainSubstring("abandon-remote"))
		Consistently(t.synced(ctx, "c")).ShouldNot(Equal("NotFound"))
		Expect(t.targets(ctx, "c")).To(HaveLen(1))

		By("abandoning one")
		t.change(ctx, "left", func(c *metal3v1.HostClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "hostclaims.metal3.io/abandon-remote", "true")
		})
		Eventually(t.synced(ctx, "left")).Should(Equal("NotFound"))
		Expect(t.targets(ctx, "left")).To(HaveLen(1))

		By("deleting the Secret, which has to wait, and repairing it")
		Expect(t.here.admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "remote"}})).To(Succeed())
		t.credentials(ctx, "remote", good)
		Eventually(t.synced(ctx, "c")).Should(Equal("NotFound"))
		Expect(t.targets(ctx, "c")).To(BeEmpty())
		Expect(t.copies(ctx)()).To(BeEmpty())
		Eventually(finalizers(ctx, t)).Should(ConsistOf("NotFound"))
	})

	It("repairs what others change, and replaces no host that was in use", func(ctx SpecContext) {
		t := newBound(ctx, "edited")
		target := t.target(ctx, "c")
		edited := target.DeepCopy()
		edited.Spec.Online = new(false)
		Expect(t.there.admin.Patch(ctx, edited, client.MergeFrom(target))).To(Succeed())
		Eventually(func() bool { return *t.target(ctx, "c").Spec.Online }).Should(BeTrue())

		By("deleting the claim in the other cluster")
		Expect(t.there.admin.Delete(ctx, target)).To(Succeed())
		Eventually(t.synced(ctx, "c")).Should(HavePrefix("False HostLost"))
		Consistently(func() int { return len(t.targets(ctx, "c")) }).Should(BeZero())
		t.remove(ctx, "c")
		Eventually(t.synced(ctx, "c")).Should(Equal("NotFound"))

		By("deleting one that has no host")
		t.claim(ctx, "idle", "hostSelector: {matchLabels: {only: nothing}}\n")
		Eventually(t.synced(ctx, "idle")).Should(Equal(inStep))
		first := t.target(ctx, "idle")
		Expect(t.there.admin.Delete(ctx, first)).To(Succeed())
		Eventually(func() []types.UID {
			var found []types.UID
			for _, each := range t.targets(ctx, "idle") {
				found = append(found, each.UID)
			}
			return found
		}).Should(And(HaveLen(1), Not(ContainElement(first.UID))))
	})

	It("reads a namespace where the proposal has it, and another context", func(ctx SpecContext) {
		here, there := worlds()
		t := newTenant(ctx, here, there, "written")
		config := map[string]any{}
		Expect(yaml.Unmarshal(t.kubeconfig, &config)).To(Succeed())
		contexts, _ := config["contexts"].([]any)
		entry, _ := contexts[0].(map[string]any)
		inner, _ := entry["context"].(map[string]any)
		delete(inner, "namespace")
		config["contexts"] = []any{
			map[string]any{"name": "beside", "context": inner, "namespace": t.user}, map[string]any{"name": "nowhere", "context": inner},
		}
		config["current-context"] = "nowhere"
		raw, err := yaml.Marshal(config)
		Expect(err).NotTo(HaveOccurred())
		t.credentials(ctx, "remote", raw)
		here.claim(ctx, t.namespace, "c", "kind: remote\nidentityRef: {name: remote, context: beside}\nargs: {real-kind: baremetal}\n")
		Eventually(t.synced(ctx, "c")).Should(HavePrefix(inStep + ": The kubeconfig has the namespace beside the context"))
		t.claim(ctx, "default", "")
		Eventually(t.synced(ctx, "default")).Should(HavePrefix("False CredentialsInvalid"), "a context without a namespace")
	})

	It("leaves alone what others have in the same namespace", func(ctx SpecContext) {
		t := newBound(ctx, "shared")
		foreign := unstructuredClaim(t.user, "foreign")
		foreign.Object["spec"] = map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{"only": "nothing"}}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.user, Name: "foreign"}}
		t.there.create(ctx, foreign, secret)
		t.remove(ctx, "c")
		Eventually(t.synced(ctx, "c")).Should(Equal("NotFound"))
		Expect(t.there.admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		Expect(t.there.admin.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	})
}
