package identity_test

import (
	"context"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

// written returns an object of CAPOCI's group, with a spec as users write it.
func written(version, kind, namespace, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("spec: "+spec), &object.Object)).To(Succeed())
	object.SetAPIVersion(identityv1.GroupName + "/" + version)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

var _ = Describe("The admission policies of the chart", Ordered, func() {
	var w *world
	var policies []unstructured.Unstructured
	const (
		good  = `{type: UserPrincipal, principalSecret: {namespace: secret-namespace, name: key}, allowedNamespaces: {list: [test]}}`
		named = `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OCIClusterIdentity, name: id}`
	)
	versions := []string{"v1beta1", "v1beta2"}
	dryRun := func(ctx context.Context, object *unstructured.Unstructured) error {
		return w.admin.Create(ctx, object.DeepCopy(), client.DryRunAll)
	}
	// refer returns an object of a kind that may name an identity, with the reference.
	refer := func(version, kind, name, ref string) *unstructured.Unstructured {
		GinkgoHelper()
		spec := "{identityRef: " + ref + "}"
		if strings.HasSuffix(kind, "Template") {
			spec = "{template: {spec: " + spec + "}}"
		}
		return written(version, kind, tenant, name, spec)
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "policies", capociCRDs(
			"ociclusters", "ocimanagedclusters", "ociclusteridentities", "ociclustertemplates", "ocimanagedclustertemplates"))
		w.create(ctx, refer("v1beta2", "OCICluster", "old", `{kind: Foo, name: id}`))
		w.create(ctx, written("v1beta2", "OCIClusterIdentity", other, "old", `{type: Nonsense}`))
		policies = w.install(ctx, templatePolicy)
		Eventually(func() error { return dryRun(ctx, refer("v1beta2", "OCICluster", "a", `{kind: Foo}`)) }).ShouldNot(Succeed())
		Eventually(func() error { return dryRun(ctx, written("v1beta2", "OCIClusterIdentity", other, "a", `{type: Foo}`)) }).ShouldNot(Succeed())
	})

	for _, kind := range []string{"OCICluster", "OCIManagedCluster", "OCIClusterTemplate", "OCIManagedClusterTemplate"} {
		It("holds the identityRef of an "+kind+" to what an identity is", func(ctx SpecContext) {
			path := "spec.identityRef"
			if strings.HasSuffix(kind, "Template") {
				path = "spec.template.spec.identityRef"
			}
			for _, version := range versions {
				Expect(dryRun(ctx, refer(version, kind, "a", named))).To(Succeed())
				for ref, says := range map[string]string{
					`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Foo, name: id}`:      path + ".kind: it must be OCIClusterIdentity",
					`{apiVersion: v1, kind: OCIClusterIdentity, name: id}`:                            path + ".apiVersion: it must be infrastructure.cluster.x-k8s.io/v1beta2",
					`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: OCIClusterIdentity}`: path + ".name: it must be the name of an OCIClusterIdentity",
					`{}`: path + ".kind: it must be OCIClusterIdentity; " + path + ".apiVersion:",
				} {
					Expect(dryRun(ctx, refer(version, kind, "a", ref))).To(MatchError(ContainSubstring(says)), version)
				}
			}
			Expect(dryRun(ctx, written("v1beta2", kind, tenant, "a", "{template: {spec: {}}}"))).To(Succeed(), "it names none")
		})
	}

	It("refuses no change of a cluster that leaves a bad reference as it is", func(ctx SpecContext) {
		change := func(patch string) error {
			return w.admin.Patch(ctx, refer("v1beta2", "OCICluster", "old", "{}"), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
		}
		Expect(change(`{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(change(`{"spec":{"identityRef":{"name":"other"}}}`)).To(MatchError(ContainSubstring("spec.identityRef.kind")))
		Expect(change(`{"spec":{"identityRef":null}}`)).To(Succeed())
	})

	DescribeTable("hold an identity to what the policy allows",
		func(ctx SpecContext, namespace, spec, says string) {
			for _, version := range versions {
				err := dryRun(ctx, written(version, "OCIClusterIdentity", namespace, "a", spec))
				if says == "" {
					Expect(err).NotTo(HaveOccurred(), version)
				} else {
					Expect(err).To(MatchError(ContainSubstring(says)), version)
				}
			}
		},
		Entry("a good one", tenant, good, ""),
		Entry("an unknown type", tenant, `{type: Nonsense}`, "spec.type: it must be UserPrincipal, InstancePrincipal or Workload"),
		Entry("the machine's, trusted", tenant, `{type: InstancePrincipal}`, ""),
		Entry("the machine's", other, `{type: InstancePrincipal}`, "spec.type: identities of this namespace must not stand for the principal of the management cluster; use UserPrincipal"),
		Entry("the workload's", other, `{type: Workload}`, "spec.type: identities of this namespace"),
		Entry("no Secret", tenant, `{type: UserPrincipal}`, "spec.principalSecret: set it, with name and namespace"),
		Entry("what CAPOCI's CRD drops", tenant, `{type: UserPrincipal, clientSecret: {namespace: secret-namespace, name: key}}`, "The CRD of CAPOCI drops a field with the name clientSecret"),
		Entry("half a Secret", tenant, `{type: UserPrincipal, principalSecret: {name: key}}`, "spec.principalSecret: it needs both name and namespace"),
		Entry("a Secret elsewhere", tenant, `{type: UserPrincipal, principalSecret: {namespace: kube-system, name: key}}`,
			"spec.principalSecret.namespace: principal Secrets must not be there, but in: secret-namespace, test"),
		Entry("the Secret of others", other, `{type: UserPrincipal, principalSecret: {namespace: secret-namespace, name: key}}`,
			"spec.principalSecret.namespace: identities of this namespace must use a Secret of the same namespace"),
		Entry("null for all", tenant, strings.Replace(good, "{list: [test]}", "{list: null}", 1), "spec.allowedNamespaces.list: it must not be null"),
		Entry("null beside a selector", tenant, strings.Replace(good, "{list: [test]}", "{list: null, selector: {matchLabels: {a: b}}}", 1), ""),
		Entry("nobody", tenant, strings.Replace(good, "{list: [test]}", "null", 1), ""),
		Entry("an empty list", tenant, strings.Replace(good, "{list: [test]}", "{list: []}", 1), ""),
		Entry("an unknown operator", tenant, strings.Replace(good, "{list: [test]}", "{selector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}", 1),
			"spec.allowedNamespaces.selector.matchExpressions: operator must be In, NotIn, Exists or DoesNotExist"),
		Entry("no values", tenant, strings.Replace(good, "{list: [test]}", "{selector: {matchExpressions: [{key: a, operator: In}]}}", 1),
			"spec.allowedNamespaces.selector.matchExpressions: values are needed with In and NotIn"),
		Entry("a good selector", tenant, strings.Replace(good, "{list: [test]}", "{selector: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Exists}]}}", 1), ""),
		Entry("more than one mistake", other, `{type: Workload, allowedNamespaces: {list: null}}`, "trustedNamespaces; spec.allowedNamespaces.list"),
	)

	It("refuse no change of an identity that leaves a bad spec as it is", func(ctx SpecContext) {
		change := func(patch string) error {
			return w.admin.Patch(ctx, written("v1beta2", "OCIClusterIdentity", other, "old", "{}"), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
		}
		Expect(change(`{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(change(`{"spec":{"type":"Workload"}}`)).To(MatchError(ContainSubstring("spec.type")))
	})

	It("warn of an identity that is open to all, or refuse it", func(ctx SpecContext) {
		heard := &warnings{}
		config := rest.CopyConfig(w.plane.Config)
		config.WarningHandler = heard
		warned, err := client.New(config, client.Options{Scheme: newScheme()})
		Expect(err).NotTo(HaveOccurred())
		open := strings.Replace(good, "{list: [test]}", "{}", 1)
		Eventually(func(g Gomega) {
			for _, version := range versions {
				g.Expect(warned.Create(ctx, written(version, "OCIClusterIdentity", tenant, "open", open), client.DryRunAll)).To(Succeed())
			}
			g.Expect(strings.Count(heard.String(), "spec.allowedNamespaces: it is empty")).To(BeNumerically(">=", 2))
		}).Should(Succeed())

		for i := range policies {
			Expect(w.admin.Delete(ctx, &policies[i])).To(Succeed())
		}
		w.install(ctx, map[string]any{"secretNamespaces": []any{vault}, "trustedNamespaces": []any{tenant}, "refuseOpen": true})
		for _, version := range versions {
			Eventually(func() error { return dryRun(ctx, written(version, "OCIClusterIdentity", tenant, "open", open)) }).
				Should(MatchError(ContainSubstring("CAPOCI allows all namespaces")))
		}
	})

	// Otherwise a tool that compares what it applied with what is there would find a difference for ever.
	It("are as the chart renders them: the API server adds nothing", func(ctx SpecContext) {
		for i := range policies {
			fresh := policies[i].DeepCopy()
			fresh.SetName("again." + fresh.GetName())
			fresh.SetResourceVersion("")
			Expect(w.admin.Create(ctx, fresh, client.DryRunAll)).To(Succeed())
			Expect(fresh.Object["spec"]).To(Equal(policies[i].Object["spec"]), policies[i].GetName())
		}
	})

	It("keep nobody from a Secret where CAPOCI is not installed", func(ctx SpecContext) {
		Expect(w.admin.DeleteAllOf(ctx, written("v1beta2", "OCIClusterIdentity", other, "", "{}"), client.InNamespace(other))).To(Succeed())
		crds := &unstructured.Unstructured{}
		crds.SetAPIVersion("apiextensions.k8s.io/v1")
		crds.SetKind("CustomResourceDefinition")
		crds.SetName("ociclusteridentities." + identityv1.GroupName)
		Expect(w.admin.Delete(ctx, crds)).To(Succeed())
		free := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "free"}}
		w.create(ctx, free)
		Eventually(func() error { return w.admin.Delete(ctx, free) }).Should(Succeed())
	})
})

var _ rest.WarningHandler = &warnings{}
