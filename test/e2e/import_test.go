package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Both strategies, both token modes and both generations of Rancher's CRDs: see README.md. Any two of them are together
// in one of the four on kind. Two with nothing in common are the core.
var _ = Describe("Import", func() {
	for _, tokens := range []rancher.TokenMode{rancher.TokenPlaceholder, rancher.TokenPlain} {
		for _, subresource := range []bool{true, false} {
			onKind, seldom := Label("kind", "nightly"), Label("long")
			label := map[string]Labels{"v3": onKind, "v1": seldom}
			switch {
			case subresource && tokens == rancher.TokenPlaceholder:
				label["v3"], label["v1"] = Label("kind", "rancher"), Label("long", "rancher")
			case !subresource && tokens == rancher.TokenPlain:
				label["v1"] = nil
			case subresource != (tokens == rancher.TokenPlaceholder):
				label = map[string]Labels{"v3": seldom, "v1": onKind}
			}
			Describe(fmt.Sprintf("with %s tokens and status subresource %t", tokens, subresource), Ordered, func() {
				var f *fixture
				BeforeAll(func(ctx context.Context) {
					f = newFixture(ctx, stage.Options{
						Name:  fmt.Sprintf("%s-%t", tokens, subresource),
						Audit: true,
						Rancher: func(o *rancher.Options) {
							o.TokenMode, o.StatusSubresource, o.Logger = tokens, subresource, GinkgoLogr
						},
					})
				})
				Describe("as v3", label["v3"], Ordered, func() {
					BeforeAll(func(ctx context.Context) {
						f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true")
					})
					lifeCycle(func() *fixture { return f }, expectV3Record)
				})
				Describe("as v1", label["v1"], Ordered, func() {
					BeforeAll(func(ctx context.Context) { f.startManager(ctx, importing.Loud) })
					lifeCycle(func() *fixture { return f }, expectV1Record)
				})
				AfterAll(func() { f.ExpectLawful() })
			})
		}
	}
})

// record asserts that exactly the documented record exists for a cluster and returns it.
type record func(ctx context.Context, f *fixture, cluster *clusterv1.Cluster) client.Object

// lifeCycle takes one cluster from its label to its end.
func lifeCycle(stageFixture func() *fixture, expectRecord record) {
	var (
		f         *fixture
		namespace string
		cluster   *clusterv1.Cluster
		rancherID client.Object
	)
	BeforeAll(func(ctx context.Context) {
		f = stageFixture()
		namespace = f.Namespace(ctx, nil)
		cluster = f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
			c.Labels = map[string]string{"team": "blue", "cluster.x-k8s.io/cluster-name": "prod"}
			c.Annotations = map[string]string{
				"cluster-api.cattle.io/cluster-description": "our production",
				// Where agents are Pods they use it: there is no such proxy.
				// Rancher's agent asks with curl, to which /0 is no network.
				"archelon.io/agent-env": "HTTPS_PROXY: http://proxy:3128\nNO_PROXY: 0.0.0.0/1,128.0.0.0/1",
			}
		})
	})

	It("leaves a cluster alone that is not selected", func(ctx context.Context) {
		Consistently(f.Reason(ctx, cluster)).Should(Equal("none"))
		Expect(importing.Current(ctx, f.Client, cluster).Finalizers).To(BeEmpty())
	})

	It("imports and connects a cluster whose namespace is labelled", func(ctx context.Context) {
		f.Choose(ctx, importing.NamespaceOf(namespace), "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		rancherID = expectRecord(ctx, f, cluster)
		Expect(f.Agent(ctx)).NotTo(BeNil())
		Expect(importing.Current(ctx, f.Client, cluster).Finalizers).To(ContainElement(importing.Finalizer))
		Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("Imported"))
		Expect(f.Events(ctx, cluster)).NotTo(ContainElement("AgentDisconnected"), "there was no connection to lose, whatever Rancher says")
	})

	It("does not revert what Rancher applies to its agent afterwards", func(ctx context.Context) {
		name := managementName(ctx, f, rancherID)
		Eventually(func() int { return f.Rancher.Reapplies(name) }).Should(BeNumerically(">=", 1))
		// Its status changes as its Pods come and go.
		wanted := func() []any {
			agent := f.Agent(ctx)
			return []any{agent.Generation, agent.Labels, agent.Spec}
		}
		drifted := wanted()
		f.Patch(ctx, cluster, func(o client.Object) { importing.SetAnnotation(o, "touched", "1") })
		Consistently(wanted).Should(Equal(drifted))
		Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))
	})

	It("connects it again when its agent is deleted, with the help of Rancher, which does not notice", func(ctx context.Context) {
		name := managementName(ctx, f, rancherID)
		before := f.Rancher.Reapplies(name)
		Expect(f.Lane.Client.Delete(ctx, f.Agent(ctx))).To(Succeed())
		Eventually(func() int { return f.Rancher.Reapplies(name) }).Should(BeNumerically(">", before))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		v3 := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Eventually(func() map[string]string { return importing.Current(ctx, f.Client, v3).Annotations }).
			Should(HaveKeyWithValue(importing.ForceDeployKey, "false"))
		// A real Rancher that fails to write down what it did does it twice. That it is asked once is in the suite of the
		// import.
		after := f.Rancher.Reapplies(name)
		Consistently(func() int { return f.Rancher.Reapplies(name) }).Should(Equal(after))
	})

	It("carries later changes of labels over", func(ctx context.Context) {
		f.Patch(ctx, cluster, func(o client.Object) { o.SetLabels(map[string]string{"tier": "1"}) })
		Eventually(func() map[string]string {
			return importing.Current(ctx, f.Client, rancherID).GetLabels()
		}).Should(And(HaveKeyWithValue("tier", "1"), Not(HaveKey("team")), HaveKeyWithValue(importing.OwnerLabel, "prod")))
	})

	It("keeps an imported cluster when the label is removed", func(ctx context.Context) {
		ns := importing.Current(ctx, f.Client, importing.NamespaceOf(namespace))
		f.Patch(ctx, ns, func(o client.Object) {
			labels := o.GetLabels()
			delete(labels, importing.ImportLabel)
			o.SetLabels(labels)
		})
		Consistently(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		expectRecord(ctx, f, cluster)
		f.Choose(ctx, importing.Current(ctx, f.Client, importing.NamespaceOf(namespace)), "true")
	})

	It("un-imports when the record is deleted in Rancher, and stays so", func(ctx context.Context) {
		Expect(f.Client.Delete(ctx, rancherID)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).To(And(HaveKeyWithValue(importing.ImportedKey, "true"), Not(HaveKey(importing.RecordKey))))
		Expect(cluster.Finalizers).NotTo(ContainElement(importing.Finalizer))
		Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("RemovedInRancher"))
		f.ExpectNothingLeft(ctx, cluster)
		Consistently(func() int { return len(f.V3Records(ctx, cluster)) + len(f.V1Records(ctx, cluster)) }).Should(BeZero())
	})

	It("imports again when the annotation is removed", func(ctx context.Context) {
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, importing.ImportedKey)
			o.SetAnnotations(annotations)
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("un-imports when the label says false, and imports again when it says true", func(ctx context.Context) {
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NotSelected"))
		Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("Unimported"))
		f.ExpectNothingLeft(ctx, cluster)
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).NotTo(HaveKey(importing.ImportedKey))
		Expect(cluster.Finalizers).NotTo(ContainElement(importing.Finalizer))
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("deletes the record with the CAPI cluster", func(ctx context.Context) {
		f.ExpectNoSecrets()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	})
}

func expectV3Record(ctx context.Context, f *fixture, cluster *clusterv1.Cluster) client.Object {
	GinkgoHelper()
	importing.Current(ctx, f.Client, cluster)
	records := f.V3Records(ctx, cluster)
	Expect(records).To(HaveLen(1))
	Expect(f.V1Records(ctx, cluster)).To(BeEmpty())
	found := &records[0]
	Expect(found.Name).To(MatchRegexp(`^c-[bcdfghjklmnpqrstvwxz2456789]{5}$`))
	Expect(cluster.Annotations).To(HaveKeyWithValue(importing.RecordKey, "v3/"+found.Name))
	expectMetadata(found, cluster)
	Expect(found.Finalizers).To(ContainElement(importing.Finalizer))
	Expect(found.Spec.DisplayName).To(Equal("prod"))
	Expect(found.Spec.Description).To(Equal("our production"))
	Expect(found.Spec.AgentEnvVars).To(Equal([]corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "NO_PROXY", Value: "0.0.0.0/1,128.0.0.0/1"}}))
	Expect(unstructuredContent(found)["spec"]).NotTo(HaveKey("imported"))
	expectToken(ctx, f, found.Name)
	return found
}

func expectV1Record(ctx context.Context, f *fixture, cluster *clusterv1.Cluster) client.Object {
	GinkgoHelper()
	importing.Current(ctx, f.Client, cluster)
	records := f.V1Records(ctx, cluster)
	Expect(records).To(HaveLen(1))
	Expect(f.V3Records(ctx, cluster)).To(BeEmpty())
	found := &records[0]
	Expect(found.Name).To(Equal("prod-capi"))
	Expect(found.Namespace).To(Equal(cluster.Namespace))
	Expect(cluster.Annotations).To(HaveKeyWithValue(importing.RecordKey, "v1/prod-capi"))
	expectMetadata(found, cluster)
	Expect(found.Annotations).To(HaveKeyWithValue("field.cattle.io/description", "our production"))
	Expect(found.OwnerReferences).To(Equal([]metav1.OwnerReference{{
		APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}}))
	Expect(found.Spec.RKEConfig).To(BeNil())
	Expect(found.Spec.ClusterAPIConfig).To(BeNil())
	expectToken(ctx, f, found.Status.ClusterName)
	return found
}

// expectMetadata asserts labels and annotations that both kinds of record share.
func expectMetadata(object client.Object, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Expect(object.GetLabels()).To(And(
		HaveKeyWithValue(importing.OwnerLabel, cluster.Name),
		HaveKeyWithValue(importing.OwnerNSLabel, cluster.Namespace),
		HaveKeyWithValue(importing.OwnedLabel, ""),
		HaveKeyWithValue(importing.UIDLabel, string(cluster.UID)),
		Not(HaveKey("cluster.x-k8s.io/cluster-name")),
	))
	for key, value := range cluster.Labels {
		if key == "team" || key == "tier" {
			Expect(object.GetLabels()).To(HaveKeyWithValue(key, value))
		}
	}
	Expect(object.GetAnnotations()).To(And(
		HaveKeyWithValue("field.cattle.io/no-creator-rbac", "true"),
		HaveKeyWithValue("rancher.io/imported-cluster-version-management", "false"),
		Not(HaveKey("field.cattle.io/creatorId")),
	))
}

// expectToken asserts that the registration token lives in the namespace of the v3 Cluster.
func expectToken(ctx context.Context, f *fixture, namespace string) {
	GinkgoHelper()
	token := &managementv3.ClusterRegistrationToken{}
	Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default-token"}, token)).To(Succeed())
	Expect(token.Spec.ClusterName).To(Equal(namespace))
}

// managementName returns the name of the v3 Cluster behind a record.
func managementName(ctx context.Context, f *fixture, object client.Object) string {
	GinkgoHelper()
	if v1, ok := importing.Current(ctx, f.Client, object).(*provisioningv1.Cluster); ok {
		return v1.Status.ClusterName
	}
	return object.GetName()
}

func unstructuredContent(object runtime.Object) map[string]any {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	return content
}
