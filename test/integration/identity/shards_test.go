package identity_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/identity/translation"
	"github.com/archelon-io/archelon/internal/shard"
)

// The identities and the tenant belong to one instance, and the clusters of namespace other to another one.
var _ = Describe("Instances that divide the namespaces", Ordered, func() {
	var w *world
	var central func()
	policy := oci.Policy{SecretNamespaces: []string{translated}, TrustedNamespaces: []string{translated}}
	within := func(names, excluded []string) identity.Scope {
		GinkgoHelper()
		namespaces, err := shard.New(names, excluded)
		Expect(err).NotTo(HaveOccurred())
		return identity.Scope{Shard: namespaces, Policy: policy}
	}
	named := func(name string) *identityv1.OCIClusterIdentity {
		return &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: translated, Name: name}}
	}
	secretOf := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: translated, Name: name}}
	}
	// handmade is an identity that no cloud credential stands behind.
	handmade := func(ctx context.Context, name string, allowed identityv1.AllowedNamespaces) {
		GinkgoHelper()
		object := named(name)
		object.Spec = w.translate.Spec(name)
		object.Spec.AllowedNamespaces = &allowed
		w.create(ctx, &corev1.Secret{ObjectMeta: object.ObjectMeta, Data: w.secretData(w.key)})
		w.create(ctx, object)
	}
	clusterFor := func(ctx context.Context, namespace, identity string) *infrav1.OCICluster {
		GinkgoHelper()
		cluster := &infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity},
			Spec: infrav1.ClusterSpec{IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity", Namespace: translated, Name: identity,
			}},
		}
		w.create(ctx, cluster)
		return cluster
	}
	inUse := func(ctx context.Context, name string) func() string {
		return w.conditionIn(ctx, translated, name, "InUse")
	}
	found := func(ctx context.Context, object client.Object) func() error {
		return func() error { return w.admin.Get(ctx, client.ObjectKeyFromObject(object), object) }
	}
	missing := MatchError(ContainSubstring("not found"))
	allowDeletion := func(ctx context.Context, object client.Object) {
		GinkgoHelper()
		patch := `{"metadata":{"annotations":{"archelon.io/allow-deletion":"true"}}}`
		Expect(w.admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "shards", capociCRDs())
		for _, name := range []string{credentials, translated} {
			w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.bind(ctx, "identity-translation")
		w.bind(ctx, "oci-credentials", credentials)
		w.bind(ctx, "oci-translated", translated)
		w.start(ctx, within([]string{other}, nil), nil)
		spec, err := translation.NewPolicy(translated, []string{tenant, other}, "", false, "us-ashburn-1")
		Expect(err).NotTo(HaveOccurred())
		w.translate = &spec
		central = w.start(ctx, within(nil, []string{other}), nil)
		w.install(ctx, map[string]any{"secretNamespaces": []any{translated}, "trustedNamespaces": []any{translated}})
	})

	DescribeTable("say that nobody uses an identity only if they see everybody who may",
		func(ctx SpecContext, name string, allowed identityv1.AllowedNamespaces, says, message string) {
			handmade(ctx, name, allowed)
			Eventually(inUse(ctx, name)).Should(And(HavePrefix(says), ContainSubstring(message)))
		},
		Entry("named namespaces of the instance", "mine", identityv1.AllowedNamespaces{NamespaceList: []string{tenant, vault}},
			"False NotUsed", ""),
		Entry("one of another instance among them", "named", identityv1.AllowedNamespaces{NamespaceList: []string{tenant, other}},
			"Unknown MayBeUsed", "namespaces other"),
		Entry("all namespaces", "open", identityv1.AllowedNamespaces{}, "Unknown MayBeUsed", infrav1.AllowDeletionAnnotation),
		Entry("a label that any namespace may have", "selected", identityv1.AllowedNamespaces{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
		}, "Unknown MayBeUsed", infrav1.AllowDeletionAnnotation),
	)

	It("keep an identity and its Secret that a cluster of another instance may use, until that is overridden", func(ctx SpecContext) {
		clusterFor(ctx, other, "named")
		for _, object := range []client.Object{named("named"), secretOf("named")} {
			Eventually(func() error { return w.admin.Delete(ctx, object, client.DryRunAll) }).Should(MatchError(And(
				ContainSubstring("may be in use"), ContainSubstring("archelon.io/allow-deletion"))))
		}
		allowDeletion(ctx, named("named"))
		Eventually(func() error { return w.admin.Delete(ctx, named("named")) }).Should(Succeed())
		Eventually(func() error { return w.admin.Delete(ctx, secretOf("named")) }).Should(Succeed(), "nothing names it any more")
	})

	It("name the clusters that they see, and that there may be more", func(ctx SpecContext) {
		cluster := clusterFor(ctx, tenant, "open")
		Eventually(inUse(ctx, "open")).Should(And(
			HavePrefix("True Used: Used by OCICluster test/open. "), ContainSubstring("may use it as well")))
		Expect(w.admin.Delete(ctx, cluster)).To(Succeed())
		Eventually(inUse(ctx, "open")).Should(HavePrefix("Unknown MayBeUsed"))
	})

	It("keep what a deleted cloud credential leaves while a cluster of another instance may use it", func(ctx SpecContext) {
		source := w.credential("cc-shared", w.key)
		w.create(ctx, source)
		Eventually(inUse(ctx, "cc-shared")).Should(HavePrefix("Unknown MayBeUsed"))
		clusterFor(ctx, other, "cc-shared")
		Expect(w.admin.Delete(ctx, source)).To(Succeed())
		Eventually(w.conditionIn(ctx, translated, "cc-shared", "Translated")).Should(And(
			HavePrefix("False CredentialGone"), ContainSubstring("archelon.io/allow-deletion")))
		Consistently(found(ctx, named("cc-shared"))).Should(Succeed())
		Expect(found(ctx, secretOf("cc-shared"))()).To(Succeed())

		By("overriding it")
		allowDeletion(ctx, named("cc-shared"))
		Eventually(found(ctx, named("cc-shared"))).Should(missing)
		Eventually(found(ctx, secretOf("cc-shared"))).Should(missing)
	})

	It("follow when an instance sees more, or less, than the one before it", func(ctx SpecContext) {
		source := w.credential("cc-later", w.key)
		w.create(ctx, source)
		Eventually(inUse(ctx, "cc-later")).Should(HavePrefix("Unknown MayBeUsed"))
		cluster := clusterFor(ctx, other, "cc-later")
		central()
		wide := w.start(ctx, within(nil, nil), nil)
		Eventually(inUse(ctx, "cc-later")).Should(Equal("True Used: Used by OCICluster other/cc-later"))
		Eventually(inUse(ctx, "selected")).Should(HavePrefix("False NotUsed"))
		Expect(w.admin.Delete(ctx, cluster)).To(Succeed())
		Eventually(inUse(ctx, "cc-later")).Should(HavePrefix("False NotUsed"))
		wide()

		// What the next instance finds is written by one that saw more, and it is not true any more.
		clusterFor(ctx, other, "cc-later")
		Expect(w.admin.Delete(ctx, source)).To(Succeed())
		narrow := w.start(ctx, within(nil, []string{other}), nil)
		Eventually(inUse(ctx, "selected")).Should(HavePrefix("Unknown MayBeUsed"))
		Eventually(inUse(ctx, "cc-later")).Should(HavePrefix("Unknown MayBeUsed"))
		Eventually(w.conditionIn(ctx, translated, "cc-later", "Translated")).Should(HavePrefix("False CredentialGone"))
		Expect(found(ctx, secretOf("cc-later"))()).To(Succeed())
		narrow()

		// With a cluster that goes while all are seen, everything goes.
		w.start(ctx, within(nil, nil), nil)
		Eventually(inUse(ctx, "cc-later")).Should(HavePrefix("True Used"))
		Expect(w.admin.Delete(ctx, &infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "cc-later"},
		})).To(Succeed())
		Eventually(found(ctx, named("cc-later"))).Should(missing)
		Eventually(found(ctx, secretOf("cc-later"))).Should(missing)
	})
})
