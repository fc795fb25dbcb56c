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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: a tenant writes the annotation that names the record. It may write all metadata of its CAPI clusters, and
// what is named is made with the rights of the manager.
var _ = Describe("A record's name that a tenant has written", func() {
	for _, strategy := range importing.Strategies() {
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
			importing.SetAnnotation(c, importing.RecordKey, id)
		}
	}
	recordOf := func(ctx context.Context, cluster *clusterv1.Cluster) client.Object {
		GinkgoHelper()
		Eventually(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(HaveLen(1))
		return f.Look(ctx).Records(strategy, cluster)[0]
	}
	unimport := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		record := recordOf(ctx, cluster)
		f.Choose(ctx, importing.Current(ctx, f.Client, cluster), "false")
		Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(func() map[string]string { return importing.Current(ctx, f.Client, cluster).Annotations }).ShouldNot(HaveKey(importing.RecordKey))
		f.expectNoAgent(ctx)
	}

	Describe("as "+strategy, Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			f = newFixture(ctx, stage.Options{Name: "forged-" + strategy, Audit: true})
			namespace = f.Namespace(ctx, nil)
			f.startManager(ctx, importing.Gate(strategy), "--sync-period=1h")
		})

		It("is put right when the cluster is imported, and makes no second record", func(ctx context.Context) {
			cluster := f.Cluster(ctx, namespace, "renamed", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			record := recordOf(ctx, cluster)
			for _, other := range []string{"c-zzzzz", secondName(namespace, "renamed"), "c-other", "renamed"} {
				f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, importing.RecordKey, strategy+"/"+other) })
				Eventually(func() string { return importing.Current(ctx, f.Client, cluster).Annotations[importing.RecordKey] }).
					Should(Equal(strategy + "/" + record.GetName()))
			}
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Consistently(func() []client.Object { return f.Look(ctx).Records(strategy, cluster) }).Should(HaveExactElements(HaveField("GetUID()", record.GetUID())))
			unimport(ctx, cluster)
		})

		if strategy == "v3" {
			// Rancher takes over the namespace that has the name of a v3 Cluster, and deletes it together with the cluster.
			victims := []any{Entry("of a tenant", "tenant", "victim")}
			if !importing.Isolated() { // An instance of named namespaces has no right to look for others.
				victims = append(victims, Entry("with a name that a record could have", "alike", "c-bcdfg"))
			}
			DescribeTable("is not that of somebody's namespace", append([]any{func(ctx context.Context, name, victim string) {
				Expect(f.Client.Create(ctx, importing.NamespaceOf(victim))).To(Succeed())
				for suffix, finalizers := range map[string][]string{"-new": nil, "-begun": {importing.Finalizer}} {
					cluster := f.Cluster(ctx, namespace, name+suffix, forged("v3/"+victim, finalizers...))
					record := recordOf(ctx, cluster)
					Expect(record.GetName()).To(MatchRegexp(`^c-[a-z0-9]{5}$`))
					Expect(record.GetName()).NotTo(Equal(victim))
					Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
					unimport(ctx, cluster)
					Eventually(f.K(ctx).Get(importing.NamespaceOf(record.GetName()))).Should(Satisfy(apierrors.IsNotFound))
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

			cluster := f.Cluster(ctx, namespace, "thief", forged("v1/c-vvvvv"))
			Expect(recordOf(ctx, cluster).GetName()).To(Equal("thief-capi"))
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			Expect(f.K(ctx).Get(&provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-vvvvv"}})()).To(Satisfy(apierrors.IsNotFound))
			unimport(ctx, cluster)

			By("nor when the tenant makes a record by hand that leads to it")
			cluster = f.Cluster(ctx, namespace, "forger", func(c *clusterv1.Cluster) { importing.SetAnnotation(c, "archelon.io/agent-env", `{"A":"b"}`) })
			record := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-vvvvv"}}
			record.Labels = map[string]string{
				importing.OwnedLabel: "", importing.OwnerLabel: cluster.Name, importing.OwnerNSLabel: namespace, importing.UIDLabel: string(cluster.UID),
			}
			record.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
			Expect(f.Client.Create(ctx, record)).To(Succeed())
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ForeignRancherCluster"))
			Consistently(f.Reason(ctx, cluster)).Should(Equal("False/ForeignRancherCluster"))
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
			cluster := f.ClusterWith(ctx, namespace, "squeezed", []byte("none"), importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ForeignRancherCluster"))
			version := importing.Current(ctx, f.Client, cluster).ResourceVersion
			Consistently(func() string { return importing.Current(ctx, f.Client, cluster).ResourceVersion }).Should(Equal(version))
		})
	})
}

// secondName is the name of a v1 record whose first choice is taken.
func secondName(namespace, name string) string {
	hash := sha256.Sum256([]byte(namespace + "/" + name))
	return fmt.Sprintf("%s-%x-capi", name, hash[:4])
}
