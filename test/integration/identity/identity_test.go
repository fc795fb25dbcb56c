package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/shard"
)

var _ = Describe("The controller with CAPOCI's CRDs", Ordered, func() {
	var w *world
	var stop func()

	// identityWith creates an identity of the tenant from JSON of its spec, as users write it.
	identityWith := func(ctx context.Context, version, name, spec string) {
		GinkgoHelper()
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(spec), &object.Object)).To(Succeed())
		object.Object = map[string]any{"spec": object.Object}
		object.SetAPIVersion(identityv1.GroupName + "/" + version)
		object.SetKind(identityv1.OCIClusterIdentityKind)
		object.SetNamespace(tenant)
		object.SetName(name)
		w.create(ctx, object)
	}
	secret := `type: UserPrincipal
principalSecret: {namespace: secret-namespace, name: user-credentials}
`
	// secretNamed is a spec for clusters of the tenant, with a Secret of its own.
	secretNamed := func(name string) string {
		return strings.Replace(secret, secretName, name, 1) + "allowedNamespaces: {list: [test]}"
	}
	clusterWith := func(ctx context.Context, namespace, name, identity string) {
		GinkgoHelper()
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		w.create(ctx, &infrav1.OCICluster{ObjectMeta: meta, Spec: infrav1.ClusterSpec{
			IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity", Namespace: tenant,
				Name: identity,
			},
		}})
	}
	allowed := func(ctx context.Context, namespace, name string) func() string {
		return func() string {
			verdict, err := w.resolver.Resolve(ctx, w.cluster(ctx, namespace, name))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%t %s", verdict.Allowed, verdict.Reason)
		}
	}
	relabel := func(ctx context.Context, namespace, labels string) {
		GinkgoHelper()
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Expect(w.admin.Patch(
			ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`)),
		)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "identity", capociCRDs())
		stop = w.start(ctx, templateScope, nil)
		w.create(
			ctx,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: secretName}, Data: w.secretData(w.key),
			},
		)
	})

	DescribeTable("reads what the API server stores of allowedNamespaces",
		func(ctx SpecContext, name, spec, inTenant, inOther, restricted string) {
			for _, version := range []string{"v1beta1", "v1beta2"} {
				named := name + "-" + version
				identityWith(ctx, version, named, secret+spec)
				clusterWith(ctx, tenant, named, named)
				clusterWith(ctx, other, named, named)
				Eventually(allowed(ctx, tenant, named)).Should(Equal(inTenant), version)
				Eventually(allowed(ctx, other, named)).Should(Equal(inOther), version)
				Eventually(w.condition(ctx, named, "NamespacesRestricted")).Should(HavePrefix(restricted), version)
			}
		},
		Entry("absent", "absent", "", "false NamespaceNotAllowed", "false NamespaceNotAllowed", "True Restricted"),
		Entry(
			"null", "null", "allowedNamespaces: null", "false NamespaceNotAllowed", "false NamespaceNotAllowed",
			"True Restricted",
		),
		Entry("empty", "empty", "allowedNamespaces: {}", "true ", "true ", "False OpenToAllNamespaces"),
		Entry(
			"a misspelled field, which is dropped", "typo", "allowedNamespaces: {lists: [test]}", "true ", "true ",
			"False OpenToAllNamespaces",
		),
		Entry(
			"null list", "nulllist", "allowedNamespaces: {list: null}", "false NamespaceNotAllowed",
			"false NamespaceNotAllowed", "False NullList",
		),
		Entry(
			"null list and selector", "nulls", "allowedNamespaces: {list: null, selector: null}",
			"false NamespaceNotAllowed", "false NamespaceNotAllowed", "False NullList",
		),
		Entry(
			"empty list", "emptylist", "allowedNamespaces: {list: []}", "false NamespaceNotAllowed",
			"false NamespaceNotAllowed", "True Restricted",
		),
		Entry(
			"list", "list", "allowedNamespaces: {list: [test]}", "true ", "false NamespaceNotAllowed",
			"True Restricted",
		),
		Entry(
			"empty selector", "emptyselector", "allowedNamespaces: {selector: {}}", "false NamespaceNotAllowed",
			"false NamespaceNotAllowed", "True Restricted",
		),
		Entry("selector by name", "selector",
			`allowedNamespaces: {selector: {matchLabels: {kubernetes.io/metadata.name: other}}}`,
			"false NamespaceNotAllowed", "true ", "True Restricted"),
		Entry("list or selector", "either",
			`allowedNamespaces: {list: [test], selector: {matchLabels: {kubernetes.io/metadata.name: other}}}`,
			"true ", "true ", "True Restricted"),
		Entry("selector that cannot be read", "bad",
			`allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}`,
			"false SelectorInvalid", "false SelectorInvalid", "True Restricted"),
		Entry("that and a list", "badlist",
			`allowedNamespaces: {list: [test], selector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}`,
			"true ", "false SelectorInvalid", "True Restricted"),
	)

	It("says that a selector cannot be read, in the words of its parser", func(ctx SpecContext) {
		Eventually(w.condition(ctx, "bad-v1beta2", "Ready")).Should(
			And(HavePrefix("False SelectorInvalid"), ContainSubstring(`"Is" is not a valid label selector operator`)),
		)
	})

	It("follows labels of Namespaces, and tells whom it concerns", func(ctx SpecContext) {
		identityWith(ctx, "v1beta2", "labels", secret+"allowedNamespaces: {selector: {matchLabels: {team: x}}}")
		clusterWith(ctx, other, "labels", "labels")
		Eventually(w.condition(ctx, "labels", "InUse")).Should(
			Equal("False NotUsed: Refused: OCICluster other/labels (NamespaceNotAllowed)"),
		)
		w.notified.Clear()
		relabel(ctx, other, `{"team":"x"}`)
		Eventually(w.condition(ctx, "labels", "InUse")).Should(Equal("True Used: Used by OCICluster other/labels"))
		Eventually(func() bool { _, told := w.notified.Load("OCICluster other/labels"); return told }).Should(BeTrue())
		Expect(allowed(ctx, other, "labels")()).To(Equal("true "))
		relabel(ctx, other, `{"team":null}`)
		Eventually(w.condition(ctx, "labels", "InUse")).Should(HavePrefix("False NotUsed"))
		_, err := w.principal(ctx, w.cluster(ctx, other, "labels"))
		Expect(reasonOf(err)).To(Equal(identityv1.NamespaceNotAllowedReason))
	})

	It("follows the Secret: absent, incomplete, complete, of another key, gone", func(ctx SpecContext) {
		identityWith(
			ctx, "v1beta2", "rotate",
			secretNamed("rotate"),
		)
		Eventually(w.condition(ctx, "rotate", "Ready")).Should(
			Equal("False SecretNotFound: Secret secret-namespace/rotate does not exist. Create it, or correct spec.principalSecret"),
		)
		data := w.secretData(w.key)
		delete(data, "key")
		held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "rotate"}, Data: data}
		w.create(ctx, held)
		Eventually(w.condition(ctx, "rotate", "Ready")).Should(Equal("False CredentialInvalid: The Secret lacks key. Add what is missing"))
		held.Data = w.secretData(w.key)
		Expect(w.admin.Update(ctx, held)).To(Succeed())
		Eventually(w.condition(ctx, "rotate", "Ready")).Should(Equal("True Ready"))
		rotated, err := rsa.GenerateKey(rand.Reader, 2048)
		Expect(err).NotTo(HaveOccurred())
		held.Data["key"] = w.secretData(rotated)["key"]
		Expect(w.admin.Update(ctx, held)).To(Succeed())
		Eventually(w.condition(ctx, "rotate", "Ready")).Should(
			ContainSubstring("fingerprint belongs to another key"),
		)
		Expect(w.admin.Delete(ctx, held)).To(Succeed())
		Eventually(w.condition(ctx, "rotate", "Ready")).Should(HavePrefix("False SecretNotFound"))
	})

	It("wakes a cluster whose identity comes later", func(ctx SpecContext) {
		clusterWith(ctx, tenant, "early", "late")
		Eventually(func() bool { _, told := w.notified.Load("OCICluster test/early"); return told }).Should(BeTrue())
		Expect(allowed(ctx, tenant, "early")()).To(Equal("false IdentityNotFound"))
		w.notified.Clear()
		identityWith(ctx, "v1beta2", "late", secret+"allowedNamespaces: {list: [test]}")
		Eventually(allowed(ctx, tenant, "early")).Should(Equal("true "))
		Eventually(func() bool { _, told := w.notified.Load("OCICluster test/early"); return told }).Should(BeTrue())
	})

	It("takes an outage for no answer", func(ctx SpecContext) {
		identityWith(
			ctx, "v1beta2", "outage",
			secretNamed("outage"),
		)
		clusterWith(ctx, tenant, "outage", "outage")
		held := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "outage"}, Data: w.secretData(w.key),
		}
		w.create(ctx, held)
		Eventually(w.condition(ctx, "outage", "Ready")).Should(Equal("True Ready"))
		w.failing(func(string, client.Object) error { return apierrors.NewServiceUnavailable("down") })
		DeferCleanup(func() { w.failing(nil) })
		held.StringData = map[string]string{"region": "us-ashburn-1"}
		Expect(w.admin.Update(ctx, held)).To(Succeed())
		Eventually(w.condition(ctx, "outage", "Ready")).Should(
			And(HavePrefix("True EvaluationFailed"), ContainSubstring("down")),
		)
		Expect(allowed(ctx, tenant, "outage")()).To(Equal("true "))
		clusterWith(ctx, tenant, "outage-late", "outage")
		Eventually(w.condition(ctx, "outage", "InUse")).Should(
			Equal("True Used: Used by OCICluster test/outage-late, OCICluster test/outage"), "who uses it is known all the same",
		)
		_, err := w.principal(ctx, w.cluster(ctx, tenant, "outage"))
		Expect(err).To(MatchError(ContainSubstring("down")))
		Expect(reasonOf(err)).To(BeEmpty())
		w.failing(nil)
		Eventually(w.condition(ctx, "outage", "Ready")).Should(Equal("True Ready"))
	})

	It("keeps identities of tenants from Secrets of others, and from the principal of the machine", func(ctx SpecContext) {
		stop()
		scope := identity.Scope{Policy: oci.Policy{SecretNamespaces: []string{vault, tenant}}}
		end := w.start(ctx, scope, nil)
		identityWith(ctx, "v1beta2", "thief", secret+"allowedNamespaces: {}")
		identityWith(ctx, "v1beta2", "climber", "type: InstancePrincipal\nallowedNamespaces: {}")
		clusterWith(ctx, tenant, "thief", "thief")
		clusterWith(ctx, tenant, "climber", "climber")
		Eventually(w.condition(ctx, "thief", "Ready")).Should(HavePrefix("False SecretNamespaceForbidden"))
		Eventually(w.condition(ctx, "climber", "Ready")).Should(HavePrefix("False PrincipalTypeForbidden"))
		for name, reason := range map[string]string{
			"thief": "SecretNamespaceForbidden", "climber": "PrincipalTypeForbidden",
		} {
			provider, err := w.principal(ctx, w.cluster(ctx, tenant, name))
			Expect(provider).To(BeNil())
			Expect(reasonOf(err)).To(Equal(reason))
		}
		end()
	})

	It("works in named namespaces, and reads identities of trusted ones", func(ctx SpecContext) {
		only, err := shard.New([]string{other}, nil)
		Expect(err).NotTo(HaveOccurred())
		end := w.start(ctx, identity.Scope{Shard: only, Policy: templateScope.Policy}, nil)
		Eventually(allowed(ctx, other, "empty-v1beta2")).Should(Equal("true "))
		end()
		end = w.start(ctx, identity.Scope{Shard: only}, nil)
		Expect(allowed(ctx, other, "empty-v1beta2")()).To(Equal("false IdentityOutOfScope"))
		end()
	})

	It("asks OCI when it is told to", func(ctx SpecContext) {
		var code atomic.Int32
		code.Store(http.StatusUnauthorized)
		server := httptest.NewTLSServer(http.HandlerFunc(
			func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(int(code.Load())) },
		))
		DeferCleanup(server.Close)
		verifier, err := identity.NewVerifier(identity.VerifierOptions{
			Endpoint: server.URL, TrustedCAs: pem.EncodeToMemory(
				&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
			),
		})
		Expect(err).NotTo(HaveOccurred())
		end := w.start(ctx, templateScope, verifier)
		Eventually(w.condition(ctx, "list-v1beta2", "Ready")).Should(
			And(HavePrefix("False CredentialRejected"), ContainSubstring("401")),
		)
		end()
		code.Store(http.StatusOK)
		end = w.start(ctx, templateScope, verifier)
		Eventually(w.condition(ctx, "list-v1beta2", "Ready")).Should(Equal("True Ready"))
		end()
	})

	It("refuses to delete what is in use, and says who uses it", func(ctx SpecContext) {
		stop = w.start(ctx, templateScope, nil)
		w.install(ctx, templatePolicy)
		identityWith(
			ctx, "v1beta2", "held",
			secretNamed("held"),
		)
		identityWith(
			ctx, "v1beta2", "unused",
			secretNamed("free"),
		)
		clusterWith(ctx, tenant, "holder", "held")
		held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "held"}, Data: w.secretData(w.key)}
		free := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "free"}, Data: w.secretData(w.key)}
		w.create(ctx, held)
		w.create(ctx, free)
		Eventually(w.condition(ctx, "held", "InUse")).Should(HavePrefix("True Used"))
		found := &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "held"}}
		for _, object := range []client.Object{found, held} {
			// The API server takes a moment to know a new policy, and the parameters that it asks for.
			Eventually(func() error { return w.admin.Delete(ctx, object, client.DryRunAll) }).Should(MatchError(And(
				ContainSubstring("Used by OCICluster test/holder"), ContainSubstring("archelon.io/allow-deletion"))))
		}
		Expect(w.admin.Delete(ctx, free)).To(Succeed(), "one that nobody uses")
		Expect(w.admin.Delete(
			ctx, &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "unused"}},
		)).To(Succeed())

		By("overriding it")
		override := client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+infrav1.AllowDeletionAnnotation+`":"true"}}}`),
		)
		Expect(w.admin.Patch(ctx, held, override)).To(Succeed())
		Expect(w.admin.Delete(ctx, held)).To(Succeed())

		By("deleting the cluster")
		Expect(
			w.admin.Delete(ctx, &infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "holder"}}),
		).To(Succeed())
		Eventually(func() error { return w.admin.Delete(ctx, found) }).Should(Succeed())
	})

	It("has printed and stored no key, and read Secrets by get in the named namespaces alone", func(ctx SpecContext) {
		stop()
		events := &eventsv1.EventList{}
		Expect(w.admin.List(ctx, events)).To(Succeed())
		Expect(events.Items).NotTo(BeEmpty())
		texts := []string{w.printed.String()}
		for _, list := range []client.ObjectList{events, &identityv1.OCIClusterIdentityList{}, &infrav1.OCIClusterList{}} {
			Expect(w.admin.List(ctx, list)).To(Succeed())
			raw, err := yaml.Marshal(list)
			Expect(err).NotTo(HaveOccurred())
			texts = append(texts, string(raw))
		}
		Expect(texts[0]).To(ContainSubstring("Starting workers"), "the log was collected")
		for _, text := range texts {
			for name, value := range w.secretData(w.key) {
				for line := range strings.Lines(string(value)) {
					line = strings.TrimSpace(line)
					Expect(text).NotTo(ContainSubstring(line), name)
					Expect(text).NotTo(ContainSubstring(base64.StdEncoding.EncodeToString([]byte(line))), name)
				}
			}
		}
		requests, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		reads := 0
		for _, request := range requests {
			if request.User.Username != "system:serviceaccount:"+system+":"+account || request.ObjectRef == nil {
				continue
			}
			Expect(request.ResponseStatus.Code).NotTo(
				BeEquivalentTo(http.StatusForbidden), "%s %s", request.Verb, request.RequestURI,
			)
			if request.ObjectRef.Resource == "secrets" {
				Expect(request.ObjectRef.Namespace).To(BeElementOf(vault, tenant))
				Expect(request.Verb).To(BeElementOf("get", "list", "watch"))
				if request.Verb == "get" {
					reads++
				}
			}
			if request.Verb != "get" && request.Verb != "list" && request.Verb != "watch" {
				Expect(
					request.ObjectRef.Resource + "/" + request.ObjectRef.Subresource,
				).To(BeElementOf("ociclusteridentities/status", "events/"))
			}
		}
		Expect(reads).To(BeNumerically(">", 0))
	})
})
