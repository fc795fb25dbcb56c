package import_test

import (
	"context"
	"crypto/sha256"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: a tenant writes the annotation that names the record. It may write all metadata of its CAPI clusters, and what is named is made with the
// rights of the manager.
var _ = Describe("A record's name that a tenant has written", func() {
	for _, strategy := range strategies() {
		describeForgedNames(strategy)
	}
})

func describeForgedNames(strategy string) {
	var (
		f         *fixture
		namespace string
	)
	forged := func(id string, finalizers ...string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Finalizers = finalizers
			setAnnotation(c, recordKey, id)
		}
	}
	recordOf := func(ctx context.Context, cluster *clusterv1.Cluster) client.Object {
		GinkgoHelper()
		Eventually(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(HaveLen(1))
		return f.look(ctx).records(strategy, cluster)[0]
	}
	unimport := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		record := recordOf(ctx, cluster)
		f.choose(ctx, current(ctx, f, cluster), "false")
		Eventually(f.gone(ctx, record)).Should(BeTrue())
		Eventually(func() map[string]string { return current(ctx, f, cluster).Annotations }).ShouldNot(HaveKey(recordKey))
		f.expectNoAgent(ctx)
	}

	Describe("as "+strategy, Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "forged-" + strategy, Audit: true})
			namespace = f.namespace(ctx, nil)
			f.startManager(ctx, gate(strategy), "--sync-period=1h")
		})

		It("is put right when the cluster is imported, and makes no second record", func(ctx context.Context) {
			cluster := f.cluster(ctx, namespace, "renamed", selected)
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			record := recordOf(ctx, cluster)
			for _, other := range []string{"c-zzzzz", secondName(namespace, "renamed"), "c-other", "renamed"} {
				f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, recordKey, strategy+"/"+other) })
				Eventually(func() string { return current(ctx, f, cluster).Annotations[recordKey] }).Should(Equal(strategy + "/" + record.GetName()))
			}
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Consistently(func() []client.Object { return f.look(ctx).records(strategy, cluster) }).Should(HaveExactElements(HaveField("GetUID()", record.GetUID())))
			unimport(ctx, cluster)
		})

		if strategy == "v3" {
			// Rancher takes over the namespace that has the name of a v3 Cluster, and deletes it together with the cluster.
			victims := []any{Entry("of a tenant", "tenant", "victim")}
			if !*isolated { // An instance of named namespaces has no right to look for others.
				victims = append(victims, Entry("with a name that a record could have", "alike", "c-bcdfg"))
			}
			DescribeTable("is not that of somebody's namespace", append([]any{func(ctx context.Context, name, victim string) {
				Expect(f.Client.Create(ctx, namespaceOf(victim))).To(Succeed())
				for suffix, finalizers := range map[string][]string{"-new": nil, "-begun": {finalizer}} {
					cluster := f.cluster(ctx, namespace, name+suffix, forged("v3/"+victim, finalizers...))
					record := recordOf(ctx, cluster)
					Expect(record.GetName()).To(MatchRegexp(`^c-[a-z0-9]{5}$`))
					Expect(record.GetName()).NotTo(Equal(victim))
					Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
					unimport(ctx, cluster)
					Eventually(f.gone(ctx, namespaceOf(record.GetName()))).Should(BeTrue())
				}
				found := &corev1.Namespace{}
				Expect(f.Client.Get(ctx, client.ObjectKey{Name: victim}, found)).To(Succeed())
				Expect(found.DeletionTimestamp).To(BeNil())
			}}, victims...)...)
			return
		}

		It("is not that of a v3 Cluster that is there", func(ctx context.Context) {
			victim := &managementv3.Cluster{}
			victim.Name, victim.Labels = "c-vvvvv", map[string]string{"owner": "somebody"}
			victim.Spec.DisplayName = "victim"
			Expect(f.Client.Create(ctx, victim)).To(Succeed())

			cluster := f.cluster(ctx, namespace, "thief", forged("v1/c-vvvvv"))
			Expect(recordOf(ctx, cluster).GetName()).To(Equal("thief-capi"))
			Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.gone(ctx, &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-vvvvv"}})()).To(BeTrue())
			unimport(ctx, cluster)

			By("nor when the tenant makes a record by hand that leads to it")
			cluster = f.cluster(ctx, namespace, "forger", func(c *clusterv1.Cluster) { setAnnotation(c, "archelon.io/agent-env", `{"A":"b"}`) })
			record := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-vvvvv"}}
			record.Labels = map[string]string{ownedLabel: "", ownerLabel: cluster.Name, ownerNSLabel: namespace, uidLabel: string(cluster.UID)}
			record.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
			Expect(f.Client.Create(ctx, record)).To(Succeed())
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/ForeignRecord"))
			Consistently(f.reason(ctx, cluster)).Should(Equal("False/ForeignRecord"))
			unimport(ctx, cluster)

			Consistently(func(g Gomega) {
				found := &managementv3.Cluster{}
				g.Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(victim), found)).To(Succeed())
				g.Expect(found.DeletionTimestamp).To(BeNil())
				g.Expect(found.Labels).To(Equal(victim.Labels))
				g.Expect(found.Spec.AgentEnvVars).To(BeEmpty())
				g.Expect(found.Spec.DisplayName).To(Equal("victim"))
			}).Should(Succeed())
		})

		It("is not changed to and fro when all that it may be is taken", func(ctx context.Context) {
			// Without our labels the cache does not show them.
			for _, name := range []string{"squeezed-capi", secondName(namespace, "squeezed")} {
				foreign := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				foreign.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
				Expect(f.Client.Create(ctx, foreign)).To(Succeed())
			}
			cluster := f.clusterWith(ctx, namespace, "squeezed", []byte("none"), selected)
			Eventually(f.reason(ctx, cluster)).Should(Equal("False/ForeignRecord"))
			version := current(ctx, f, cluster).ResourceVersion
			Consistently(func() string { return current(ctx, f, cluster).ResourceVersion }).Should(Equal(version))
		})
	})
}

// secondName is the name of a v1 record whose first choice is taken.
func secondName(namespace, name string) string {
	hash := sha256.Sum256([]byte(namespace + "/" + name))
	return fmt.Sprintf("%s-%x-capi", name, hash[:4])
}
