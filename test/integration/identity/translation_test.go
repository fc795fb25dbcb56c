package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/identity/translation"
	"github.com/archelon-io/archelon/internal/shard"
)

const (
	credentials = "cattle-global-data"
	translated  = "oci-identities"
)

// addTranslation adds the controller of cloud credentials, as setup wires it.
func (w *world) addTranslation(mgr ctrl.Manager, account *rest.Config, direct client.Reader, scope shard.Scope) {
	GinkgoHelper()
	limits := cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{},
	}
	for _, watch := range translation.Controller("gate", translated, nil).Watches(scope) {
		if watch.Own {
			limits.ByObject[watch.Object] = watch.By
		}
	}
	own, err := cache.New(account, limits)
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(own)).To(Succeed())
	r := &translation.Reconciler{
		Client: mgr.GetClient(), Live: direct, Objects: mgr.GetCache(), Metadata: own,
		Recorder: mgr.GetEventRecorder(translation.ControllerName), Policy: *w.translate, Scope: scope,
	}
	Expect(r.SetupWithManager(mgr, translation.Options{Concurrency: 2, Own: own})).To(Succeed())
}

// credential is what Rancher stores.
func (w *world) credential(name string, key *rsa.PrivateKey) *corev1.Secret {
	principal := w.secretData(key)
	data := map[string][]byte{}
	for from, to := range map[string]string{
		"tenancyId": "tenancy", "userId": "user", "fingerprint": "fingerprint", "privateKeyContents": "key",
	} {
		data["ocicredentialConfig-"+from] = principal[to]
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: credentials, Name: name, Annotations: map[string]string{"provisioning.cattle.io/driver": "oracle"},
		},
		Data: data,
	}
}

var _ = Describe("The translation of Rancher's cloud credentials", Ordered, func() {
	var w *world
	var stop func()
	scope := identity.Scope{Policy: oci.Policy{SecretNamespaces: []string{translated}}}

	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	get := func(ctx context.Context, object client.Object) error {
		return w.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
	// gone and there are for Eventually.
	gone := func(ctx context.Context, object client.Object) func() bool {
		return func() bool { return client.IgnoreNotFound(get(ctx, object)) == nil && get(ctx, object) != nil }
	}
	keysOf := func(ctx context.Context, name string) func() []string {
		return func() []string {
			found := &corev1.Secret{ObjectMeta: at(translated, name)}
			if get(ctx, found) != nil {
				return nil
			}
			return slices.Sorted(maps.Keys(found.Data))
		}
	}
	// says returns what the annotation of a credential says.
	says := func(ctx context.Context, name string) func() string {
		return func() string {
			found := &corev1.Secret{ObjectMeta: at(credentials, name)}
			if err := get(ctx, found); err != nil {
				return err.Error()
			}
			return found.Annotations[infrav1.TranslationAnnotation]
		}
	}
	condition := func(ctx context.Context, name, conditionType string) func() string {
		return func() string {
			found := &identityv1.OCIClusterIdentity{ObjectMeta: at(translated, name)}
			if err := get(ctx, found); err != nil {
				return err.Error()
			}
			if c := found.Condition(conditionType); c != nil {
				return string(c.Status) + " " + c.Reason
			}
			return "none"
		}
	}
	annotate := func(ctx context.Context, name, annotations string) {
		GinkgoHelper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+annotations+`}}`))
		Expect(w.admin.Patch(ctx, &corev1.Secret{ObjectMeta: at(credentials, name)}, patch)).To(Succeed())
	}
	eventsOf := func(ctx context.Context, name string) func() []string {
		return func() []string {
			list := &eventsv1.EventList{}
			if err := w.admin.List(ctx, list, client.InNamespace(credentials)); err != nil {
				return nil
			}
			var reasons []string
			for i := range list.Items {
				if list.Items[i].Regarding.Name == name {
					reasons = append(reasons, list.Items[i].Type+" "+list.Items[i].Reason)
				}
			}
			return reasons
		}
	}
	// writes returns what the controllers have written, as "verb resource/subresource namespace/name".
	writes := func(name string) func() []string {
		return func() []string {
			requests, err := w.plane.AuditEvents()
			Expect(err).NotTo(HaveOccurred())
			var found []string
			for _, request := range requests {
				ref := request.ObjectRef
				if request.User.Username != "system:serviceaccount:"+system+":"+account || ref == nil || ref.Resource == "events" ||
					slices.Contains([]string{"get", "list", "watch"}, request.Verb) || name != "" && ref.Name != name {
					continue
				}
				found = append(found, strings.TrimSuffix(request.Verb+" "+ref.Resource+"/"+ref.Subresource, "/")+" "+ref.Namespace)
			}
			return found
		}
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "translation", capociCRDs())
		for _, name := range []string{credentials, translated} {
			w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.bind(ctx, "identity-translation")
		w.bind(ctx, "oci-credentials", credentials)
		w.bind(ctx, "oci-translated", translated)
		policy, err := translation.NewPolicy(translated, []string{tenant}, "", false, "")
		Expect(err).NotTo(HaveOccurred())
		w.translate = &policy
		stop = w.start(ctx, scope, nil)
		w.install(ctx, map[string]any{"secretNamespaces": []any{translated}})
	})

	It("creates what the credential says, and says so", func(ctx SpecContext) {
		source := w.credential("cc-plain", w.key)
		source.Annotations[infrav1.RegionAnnotation] = "us-ashburn-1"
		w.create(ctx, source)
		Eventually(keysOf(ctx, "cc-plain")).Should(Equal([]string{"fingerprint", "key", "region", "tenancy", "user"}))
		Eventually(says(ctx, "cc-plain")).Should(Equal("Translated"))
		Eventually(condition(ctx, "cc-plain", "Ready")).Should(Equal("True Ready"), "CAPOCI's form is what Archelon reads as well")
		Eventually(condition(ctx, "cc-plain", "Translated")).Should(Equal("True Translated"))
		Eventually(eventsOf(ctx, "cc-plain")).Should(Equal([]string{"Normal Translated"}))

		secret := &corev1.Secret{ObjectMeta: at(translated, "cc-plain")}
		Expect(get(ctx, secret)).To(Succeed())
		Expect(secret.Type).To(Equal(corev1.SecretTypeOpaque))
		want := w.secretData(w.key)
		want["region"] = []byte("us-ashburn-1")
		Expect(maps.EqualFunc(secret.Data, want, slices.Equal)).To(BeTrue())
		found := &identityv1.OCIClusterIdentity{ObjectMeta: at(translated, "cc-plain")}
		Expect(get(ctx, found)).To(Succeed())
		Expect(found.Spec).To(Equal(w.translate.Spec("cc-plain")))
		Expect(found.Spec.AllowedNamespaces.NamespaceList).To(Equal([]string{tenant}))
		Expect(get(ctx, source)).To(Succeed())
		Expect(source.Annotations).To(HaveKeyWithValue(infrav1.CredentialIdentityAnnotation, translated+"/cc-plain"))
		Expect(source.Finalizers).To(BeEmpty())
		for _, object := range []client.Object{secret, found} {
			Expect(object.GetLabels()).To(Equal(map[string]string{infrav1.CredentialUIDLabel: string(source.UID)}))
			Expect(object.GetFinalizers()).To(BeEmpty())
		}
	})

	It("leaves credentials of other clouds alone, and takes one without a driver by its fields", func(ctx SpecContext) {
		other := w.credential("cc-aws", w.key)
		other.Annotations = map[string]string{"provisioning.cattle.io/driver": "aws"}
		w.create(ctx, other)
		bare := w.credential("cc-bare", w.key)
		bare.Annotations = nil
		w.create(ctx, bare)
		Eventually(keysOf(ctx, "cc-bare")).Should(HaveLen(4))
		Consistently(keysOf(ctx, "cc-aws")).Should(BeEmpty())
		Expect(get(ctx, other)).To(Succeed())
		Expect(other.Annotations).To(HaveLen(1))
	})

	It("warns where there is no region, and adds the one that comes later", func(ctx SpecContext) {
		w.create(ctx, w.credential("cc-region", w.key))
		Eventually(says(ctx, "cc-region")).Should(HavePrefix("RegionMissing: "))
		Eventually(condition(ctx, "cc-region", "Translated")).Should(Equal("True RegionMissing"))
		Eventually(eventsOf(ctx, "cc-region")).Should(Equal([]string{"Warning RegionMissing"}))
		Expect(keysOf(ctx, "cc-region")()).To(Equal([]string{"fingerprint", "key", "tenancy", "user"}))
		annotate(ctx, "cc-region", `{"`+infrav1.RegionAnnotation+`":"eu-frankfurt-1"}`)
		Eventually(keysOf(ctx, "cc-region")).Should(ContainElement("region"))
		Eventually(says(ctx, "cc-region")).Should(Equal("Translated"))
		annotate(ctx, "cc-region", `{"`+infrav1.RegionAnnotation+`":"evil.example.com/#"}`)
		Eventually(says(ctx, "cc-region")).Should(HavePrefix("CredentialInvalid: In the cloud credential, region is not"))
		Eventually(condition(ctx, "cc-region", "Translated")).Should(Equal("False CredentialInvalid"))
		Expect(keysOf(ctx, "cc-region")()).To(HaveLen(5), "what worked stays")
	})

	It("follows a key that is rotated, with one write, and keeps the last one that was good", func(ctx SpecContext) {
		rotated, err := rsa.GenerateKey(rand.Reader, 2048)
		Expect(err).NotTo(HaveOccurred())
		w.create(ctx, w.credential("cc-rotate", w.key))
		Eventually(says(ctx, "cc-rotate")).Should(HavePrefix("RegionMissing"))
		Eventually(condition(ctx, "cc-rotate", "Translated")).Should(HavePrefix("True"))
		patched := func() int {
			return len(slices.DeleteFunc(writes("cc-rotate")(), func(write string) bool { return write != "patch secrets "+translated }))
		}
		before := patched()
		source := &corev1.Secret{ObjectMeta: at(credentials, "cc-rotate")}
		Expect(get(ctx, source)).To(Succeed())
		source.Data = w.credential("cc-rotate", rotated).Data
		Expect(w.admin.Update(ctx, source)).To(Succeed())
		secret := &corev1.Secret{ObjectMeta: at(translated, "cc-rotate")}
		holds := func(key *rsa.PrivateKey) func() bool {
			return func() bool {
				return get(ctx, secret) == nil && maps.EqualFunc(secret.Data, w.secretData(key), slices.Equal)
			}
		}
		Eventually(holds(rotated)).Should(BeTrue())
		Eventually(patched).Should(Equal(before + 1))
		Consistently(patched).Should(Equal(before+1), "one write for one rotation")
		Eventually(condition(ctx, "cc-rotate", "Ready")).Should(Equal("True Ready"))

		By("breaking it while a cluster uses the identity")
		w.create(ctx, &infrav1.OCICluster{ObjectMeta: at(tenant, "rotates"), Spec: infrav1.ClusterSpec{
			IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity", Namespace: translated, Name: "cc-rotate",
			},
		}})
		Eventually(condition(ctx, "cc-rotate", "InUse")).Should(Equal("True Used"))
		Expect(get(ctx, source)).To(Succeed())
		source.Data["ocicredentialConfig-fingerprint"] = w.credential("", w.key).Data["ocicredentialConfig-fingerprint"]
		Expect(w.admin.Update(ctx, source)).To(Succeed())
		Eventually(says(ctx, "cc-rotate")).Should(ContainSubstring("fingerprint belongs to another key"))
		Eventually(condition(ctx, "cc-rotate", "Translated")).Should(Equal("False CredentialWithdrawn"))
		Expect(holds(rotated)()).To(BeTrue(), "the cluster still works with it")
		Eventually(condition(ctx, "cc-rotate", "Ready")).Should(Equal("False CredentialWithdrawn"))
	})

	DescribeTable("touches nothing that was not created for the credential",
		func(ctx SpecContext, name string, theirs client.Object) {
			theirs.SetNamespace(translated)
			theirs.SetName(name)
			w.create(ctx, theirs)
			source := w.credential(name, w.key)
			w.create(ctx, source)
			Eventually(says(ctx, name)).Should(And(
				HavePrefix("Collision: "), ContainSubstring("label "+infrav1.CredentialUIDLabel+` to "`+string(source.UID)+`" on the Secret`),
			))
			Eventually(eventsOf(ctx, name)).Should(Equal([]string{"Warning Collision"}))
			// What the cache has yet to show can be met by a create alone, which changes nothing that is there.
			Consistently(writes(name)).ShouldNot(ContainElement(And(
				HaveSuffix(" "+translated), Not(HavePrefix("create ")), Not(ContainSubstring("/status ")),
			)))
			found, _ := theirs.DeepCopyObject().(client.Object)
			Expect(get(ctx, found)).To(Succeed())
			Expect(found).To(And(
				HaveField("GetUID()", theirs.GetUID()), HaveField("GetGeneration()", theirs.GetGeneration()),
				HaveField("GetLabels()", theirs.GetLabels()),
			))

			By("getting out of the way")
			Expect(w.admin.Delete(ctx, theirs)).To(Succeed())
			Eventually(says(ctx, name)).Should(HavePrefix("RegionMissing"))
			Eventually(keysOf(ctx, name)).Should(HaveLen(4))
			Eventually(condition(ctx, name, "Translated")).Should(Equal("True RegionMissing"))
		},
		Entry("a Secret", "cc-secret", &corev1.Secret{Data: map[string][]byte{"theirs": []byte("x")}}),
		Entry("an identity", "cc-identity", &identityv1.OCIClusterIdentity{Spec: identityv1.OCIClusterIdentitySpec{
			Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: translated, Name: "theirs"},
			AllowedNamespaces: &identityv1.AllowedNamespaces{NamespaceList: []string{other}},
		}}),
	)

	It("changes back what others change", func(ctx SpecContext) {
		found := &identityv1.OCIClusterIdentity{ObjectMeta: at(translated, "cc-plain")}
		open := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allowedNamespaces":{"list":null,"selector":null}}}`))
		Expect(w.admin.Patch(ctx, found, open)).To(Succeed())
		Eventually(func() *identityv1.AllowedNamespaces {
			Expect(get(ctx, found)).To(Succeed())
			return found.Spec.AllowedNamespaces
		}).Should(Equal(w.translate.Spec("cc-plain").AllowedNamespaces))
		Expect(w.admin.Delete(ctx, &corev1.Secret{ObjectMeta: at(translated, "cc-plain")})).To(Succeed())
		Eventually(keysOf(ctx, "cc-plain")).Should(HaveLen(5))
		Expect(w.admin.Delete(ctx, found)).To(Succeed())
		Eventually(condition(ctx, "cc-plain", "Translated")).Should(Equal("True Translated"))
	})

	It("keeps identity and Secret while clusters use them, and not the credential", func(ctx SpecContext) {
		w.create(ctx, w.credential("cc-used", w.key))
		cluster := &infrav1.OCICluster{ObjectMeta: at(tenant, "user"), Spec: infrav1.ClusterSpec{
			IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity", Namespace: translated, Name: "cc-used",
			},
		}}
		w.create(ctx, cluster)
		Eventually(condition(ctx, "cc-used", "InUse")).Should(Equal("True Used"))
		source := &corev1.Secret{ObjectMeta: at(credentials, "cc-used")}
		Expect(w.admin.Delete(ctx, source)).To(Succeed())
		Expect(gone(ctx, source)()).To(BeTrue())
		Eventually(condition(ctx, "cc-used", "Translated")).Should(Equal("False CredentialGone"))
		found, secret := &identityv1.OCIClusterIdentity{ObjectMeta: at(translated, "cc-used")}, &corev1.Secret{ObjectMeta: at(translated, "cc-used")}
		Consistently(func() error { return get(ctx, found) }).Should(Succeed())
		Expect(keysOf(ctx, "cc-used")()).To(HaveLen(4))
		for _, object := range []client.Object{found, secret} {
			Eventually(func() error { return w.admin.Delete(ctx, object, client.DryRunAll) }).Should(
				MatchError(ContainSubstring("Used by OCICluster test/user")), "nor do others delete them",
			)
		}

		By("deleting the cluster")
		Expect(w.admin.Delete(ctx, cluster)).To(Succeed())
		Eventually(gone(ctx, found)).Should(BeTrue())
		Eventually(gone(ctx, secret)).Should(BeTrue())
	})

	It("cleans up after a credential that is for another cloud now", func(ctx SpecContext) {
		w.create(ctx, w.credential("cc-moved", w.key))
		Eventually(says(ctx, "cc-moved")).Should(HavePrefix("RegionMissing"))
		annotate(ctx, "cc-moved", `{"provisioning.cattle.io/driver":"aws"}`)
		for _, object := range []client.Object{
			&identityv1.OCIClusterIdentity{ObjectMeta: at(translated, "cc-moved")}, &corev1.Secret{ObjectMeta: at(translated, "cc-moved")},
		} {
			Eventually(gone(ctx, object)).Should(BeTrue())
		}
		Eventually(says(ctx, "cc-moved")).Should(BeEmpty())
	})

	It("writes nothing when it is started again", func(ctx SpecContext) {
		stop()
		before := len(writes("")())
		stop = w.start(ctx, scope, nil)
		w.create(ctx, w.credential("cc-last", w.key)) // One that is worked on after all the others have been enqueued.
		Eventually(condition(ctx, "cc-last", "Translated")).Should(Equal("True RegionMissing"))
		Eventually(condition(ctx, "cc-last", "Ready")).Should(Equal("True Ready"))
		Consistently(func() int { return len(writes("")()) - len(writes("cc-last")()) }).Should(
			BeNumerically("<=", before), "%v", writes(""),
		)
	})

	It("cleans up where CAPOCI is gone, and holds no credential", func(ctx SpecContext) {
		stop = w.start(ctx, scope, nil)
		w.create(ctx, w.credential("cc-left", w.key))
		Eventually(condition(ctx, "cc-left", "Translated")).Should(Equal("True RegionMissing"))
		Eventually(condition(ctx, "cc-left", "InUse")).Should(Equal("False NotUsed"))
		for _, crd := range capociCRDs() {
			named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
			named.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			Expect(w.admin.Delete(ctx, named)).To(Succeed())
			Eventually(gone(ctx, named)).Should(BeTrue())
		}
		source := &corev1.Secret{ObjectMeta: at(credentials, "cc-left")}
		Expect(w.admin.Delete(ctx, source)).To(Succeed())
		Expect(gone(ctx, source)()).To(BeTrue())
		Eventually(gone(ctx, &corev1.Secret{ObjectMeta: at(translated, "cc-left")})).Should(BeTrue())
	})

	It("has printed and stored no key, and worked on Secrets of two namespaces alone", func(ctx SpecContext) {
		stop()
		texts := []string{w.printed.String()}
		Expect(texts[0]).To(ContainSubstring("write the principal Secret cc-plain"), "the log was collected")
		events, sources := &eventsv1.EventList{}, &corev1.SecretList{}
		Expect(w.admin.List(ctx, events)).To(Succeed())
		Expect(w.admin.List(ctx, sources)).To(Succeed())
		Expect(events.Items).NotTo(BeEmpty())
		for i := range sources.Items {
			sources.Items[i].Data, sources.Items[i].ManagedFields = nil, nil // Annotations and labels are left.
		}
		for _, list := range []client.ObjectList{events, sources} {
			raw, err := yaml.Marshal(list)
			Expect(err).NotTo(HaveOccurred())
			texts = append(texts, string(raw))
		}
		for _, text := range texts {
			for name, value := range w.secretData(w.key) {
				for line := range strings.Lines(string(value)) {
					line = strings.TrimSpace(line)
					Expect(strings.Contains(text, line)).To(BeFalse(), name)
					Expect(strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(line)))).To(BeFalse(), name)
				}
			}
		}
		requests, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		for _, request := range requests {
			ref := request.ObjectRef
			if request.User.Username != "system:serviceaccount:"+system+":"+account || ref == nil {
				continue
			}
			if !strings.Contains(request.ResponseStatus.Message, "custom resource definition is terminating") {
				Expect(request.ResponseStatus.Code).NotTo(
					BeEquivalentTo(http.StatusForbidden), "%s %s: %s", request.Verb, request.RequestURI, request.ResponseStatus.Message,
				)
			}
			if ref.Resource == "secrets" {
				Expect(ref.Namespace).To(BeElementOf(credentials, translated))
			}
			if ref.Namespace == credentials && ref.Resource == "secrets" {
				Expect(request.Verb).To(BeElementOf("get", "list", "watch", "patch"))
			}
		}
	})
})
