package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// changes are what happens to namespaces and scopes over time.
func (s *shards) changes() {
	It("may name a namespace that does not exist yet, and one that comes again", Label("nightly"), func(ctx context.Context) {
		const late = "late"
		one := s.central(ctx, "archelon1", flags("namespace", watch1, late)...)
		for range 2 {
			namespace := namespaceOf(late)
			namespace.Labels = map[string]string{importLabel: "true"}
			Expect(s.Client.Create(ctx, namespace)).To(Succeed())
			cluster := s.light(ctx, late, "prod")
			s.expectImported(ctx, cluster)
			Expect(s.Client.Delete(ctx, namespace)).To(Succeed())
			Eventually(s.gone(ctx, namespace)).WithTimeout(2 * patience).Should(BeTrue())
			Eventually(s.nothingOfRancher(ctx)).Should(BeEmpty())
		}
		one.expectLawful()
	})

	It("begin with the namespaces that they may work in, and go on with one more when it is granted", func(ctx context.Context) {
		const late = "granted-late"
		Expect(s.Client.Create(ctx, namespaceOf(late))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, namespaceOf(late))).To(Succeed()) })
		as := stage.Instance{Name: "archelon1", Isolated: true}
		Expect(s.Install(ctx, as)).To(Succeed())
		Expect(s.Grant(ctx, as, watch1)).To(Succeed())
		one := s.launch(ctx, as, flags("namespace", watch1, late)...)
		cluster, waiting := s.light(ctx, watch1, "granted", selected), s.light(ctx, late, "prod", selected)
		s.expectImported(ctx, cluster)
		Expect(s.reason(ctx, waiting)()).To(Equal("none"))
		Expect(one.Logs()).To(ContainSubstring("may not work in some of its namespaces"))
		one.expectNothingAbout(late)

		Expect(s.Grant(ctx, as, late)).To(Succeed())
		s.expectImported(ctx, waiting)
		Expect(one.Logs()).To(MatchRegexp("may work in more of its namespaces" + again + `.*granted-late`))
		s.remove(ctx, cluster, waiting)
		one.expectLawful()
	})

	It("live without a namespace, and begin with the first that is granted", Label("nightly"), func(ctx context.Context) {
		const first = "comes-first"
		as := stage.Instance{Name: "archelon1", Isolated: true}
		Expect(s.Install(ctx, as)).To(Succeed())
		one := s.launch(ctx, as, flags("namespace", first)...)
		Eventually(one.Logs).Should(ContainSubstring("comes-first (list clusters.cluster.x-k8s.io)"))
		Consistently(answers(ctx, one.Manager, "/healthz")).WithTimeout(2 * time.Second).Should(Succeed())
		Expect(one.Ready(ctx)).To(Succeed(), "nothing that Helm waits for can help it")
		token := s.metricsReader(ctx)
		metrics := func() (string, error) {
			_, body, err := scrape(ctx, one.Metrics, token)
			return body, err
		}
		Eventually(metrics).Should(ContainSubstring("archelon_caches_synced 0"))

		Expect(s.Client.Create(ctx, namespaceOf(first))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, namespaceOf(first))).To(Succeed()) })
		Expect(s.Grant(ctx, as, first)).To(Succeed())
		cluster := s.light(ctx, first, "prod", selected)
		s.expectImported(ctx, cluster)
		Expect(one.Logs()).NotTo(ContainSubstring(again), "the manager took the ports over")
		Expect(answers(ctx, one.Manager, "/healthz")()).To(Succeed())
		Eventually(one.Ready).WithContext(ctx).Should(Succeed())
		Eventually(metrics).Should(ContainSubstring("archelon_caches_synced 1"))
		s.remove(ctx, cluster)
		one.expectLawful()
	})

	It("go on in their other namespaces when one is granted in part", Label("nightly"), func(ctx context.Context) {
		const partial = "granted-partly"
		Expect(s.Client.Create(ctx, namespaceOf(partial))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, namespaceOf(partial))).To(Succeed()) })
		as := stage.Instance{Name: "archelon1", Isolated: true}
		Expect(s.Install(ctx, as)).To(Succeed())
		Expect(s.Grant(ctx, as, watch1)).To(Succeed())
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: partial, Name: "partial"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list"}}},
		}
		Expect(s.Client.Create(ctx, role)).To(Succeed())
		binding := roleBindingIn(partial)
		binding.Name = role.Name
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: as.Namespace(), Name: stage.ServiceAccount}}
		Expect(s.Client.Create(ctx, binding)).To(Succeed())

		one := s.launch(ctx, as, flags("namespace", watch1, partial)...)
		cluster, waiting := s.light(ctx, watch1, "whole", selected), s.light(ctx, partial, "prod", selected)
		s.expectImported(ctx, cluster)
		Expect(s.reason(ctx, waiting)()).To(Equal("none"))
		Expect(one.Logs()).To(ContainSubstring("granted-partly (watch clusters.cluster.x-k8s.io)"))
		one.expectNothingAbout(partial)

		Expect(s.Grant(ctx, as, partial)).To(Succeed())
		s.expectImported(ctx, waiting)
		s.remove(ctx, cluster, waiting)
		one.expectLawful()
	})

	It("follow the import label of a namespace", Label("long"), func(ctx context.Context) {
		one := s.central(ctx, "archelon1", flags("namespace", watch1, watch2)...)
		cluster, stranger := s.light(ctx, watch1, "by-namespace"), s.light(ctx, watch3, "by-namespace")
		for _, step := range []struct{ label, reason string }{{"true", "True/Imported"}, {"false", "False/NotSelected"}, {"true", "True/Imported"}} {
			for _, namespace := range []string{watch1, watch3} {
				s.choose(ctx, current(ctx, s.fixture, namespaceOf(namespace)), step.label)
			}
			Eventually(s.reason(ctx, cluster)).WithTimeout(2*patience).Should(Equal(step.reason), step.label)
			Expect(s.reason(ctx, stranger)()).To(Equal("none"))
		}
		for _, namespace := range []string{watch1, watch3} {
			s.patch(ctx, current(ctx, s.fixture, namespaceOf(namespace)), func(o client.Object) { delete(o.GetLabels(), importLabel) })
		}
		s.remove(ctx, cluster, stranger)
		one.expectLawful()
	})

	for _, strategy := range strategies() {
		It("leave what they lose as it is, for another instance to go on with, with "+strategy+" records", Label("long"), func(ctx context.Context) {
			one := s.isolated(ctx, "archelon1", []string{watch1, watch2}, gate(strategy))
			clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "moved", selected), s.light(ctx, watch2, "moved", selected)}
			s.expectImported(ctx, clusters...)
			record := s.recordUID(ctx, strategy, clusters[1])
			Expect(one.Stop()).To(Succeed())

			By("a restart of the one without the namespace")
			one = s.isolated(ctx, "archelon1", []string{watch1}, gate(strategy))
			s.choose(ctx, current(ctx, s.fixture, clusters[0]), "false")
			Eventually(s.reason(ctx, clusters[0])).Should(Equal("False/NotSelected"))
			s.expectUntouched(ctx, clusters[1])
			one.expectNothingAbout(watch2)

			By("a start of the other with it")
			two := s.isolated(ctx, "archelon2", []string{watch2}, gate(strategy))
			s.patch(ctx, current(ctx, s.fixture, clusters[1]), func(o client.Object) { o.GetLabels()["team"] = "blue" })
			Eventually(func() map[string]string { return s.look(ctx).records(strategy, clusters[1])[0].GetLabels() }).Should(HaveKeyWithValue("team", "blue"))
			Expect(s.recordUID(ctx, strategy, clusters[1])).To(Equal(record))
			s.expectImported(ctx, clusters[1])
			s.remove(ctx, clusters...)
			one.expectLawful()
			two.expectLawful()
			one.expectNothingAbout(watch2)
		})
	}

	It("are moved to another instance in full run", Label("long"), func(ctx context.Context) {
		one := s.isolated(ctx, "archelon1", []string{watch1, watch2}, gate("v3"))
		clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "handed", selected), s.light(ctx, watch2, "handed", selected)}
		s.expectImported(ctx, clusters...)
		record := s.recordUID(ctx, "v3", clusters[1])

		By("rights and scope for both, for a while")
		other := stage.Instance{Name: "archelon2", Isolated: true}
		Expect(s.Install(ctx, other)).To(Succeed())
		binding := current(ctx, s.fixture, roleBindingIn(watch2))
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: other.Namespace(), Name: stage.ServiceAccount})
		Expect(s.Client.Update(ctx, binding)).To(Succeed())
		two := s.launch(ctx, other, "--namespace="+watch2, gate("v3"))
		Eventually(two.Logs).Should(ContainSubstring("has namespaces " + watch1 + ", " + watch2))
		Expect(two.written()).To(BeEmpty())

		By("the first one gives it up")
		Expect(one.Stop()).To(Succeed())
		one.expectLawful()
		again := s.launch(ctx, one.Instance, "--namespace="+watch1, gate("v3"))
		Expect(s.Grant(ctx, other, watch2)).To(Succeed())
		s.patch(ctx, current(ctx, s.fixture, clusters[1]), func(o client.Object) { o.GetLabels()["team"] = "blue" })
		Eventually(func() map[string]string { return s.look(ctx).records("v3", clusters[1])[0].GetLabels() }).Should(HaveKeyWithValue("team", "blue"))
		Expect(s.recordUID(ctx, "v3", clusters[1])).To(Equal(record))
		Eventually(s.mayRelease(ctx, one, watch2)).Should(BeFalse())
		s.remove(ctx, clusters...)
		again.expectLawful()
		again.expectNothingAbout(watch2)
		two.expectLawful()
	})
}

// again is in the sentence with which a manager ends to be started again.
const again = "; the process ends, to be started again"

// answers asks as the kubelet does.
func answers(ctx context.Context, m *stage.Manager, path string) func() error {
	return func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Health+path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s is %d: %s", path, response.StatusCode, body)
		}
		return nil
	}
}

// recordUID returns the UID of the one record of a CAPI cluster.
func (s *shards) recordUID(ctx context.Context, strategy string, cluster *clusterv1.Cluster) types.UID {
	GinkgoHelper()
	records := s.look(ctx).records(strategy, cluster)
	Expect(records).To(HaveLen(1))
	return records[0].GetUID()
}
