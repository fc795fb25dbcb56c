package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// changes are what happens to namespaces and scopes over time.
func (s *shards) changes() {
	It("may name a namespace that does not exist yet, and one that comes again", Label("nightly"), func(ctx context.Context) {
		const late = "late"
		one := s.central(ctx, "archelon1", flags("namespace", watch1, late)...)
		for range 2 {
			namespace := importing.NamespaceOf(late)
			namespace.Labels = map[string]string{importing.ImportLabel: "true"}
			Expect(s.Client.Create(ctx, namespace)).To(Succeed())
			cluster := s.light(ctx, late, "prod")
			s.expectImported(ctx, cluster)
			Expect(s.Client.Delete(ctx, namespace)).To(Succeed())
			Eventually(s.K(ctx).Get(namespace)).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
			Eventually(s.NothingOfRancher(ctx)).Should(BeEmpty())
		}
		one.expectLawful()
	})

	It("begin with the namespaces that they may work in, and go on with one more when it is granted", func(ctx context.Context) {
		const late = "granted-late"
		Expect(s.Client.Create(ctx, importing.NamespaceOf(late))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, importing.NamespaceOf(late))).To(Succeed()) })
		as := stage.Instance{Name: "archelon1", Isolated: true}
		Expect(s.Install(ctx, as)).To(Succeed())
		Expect(s.Grant(ctx, as, watch1)).To(Succeed())
		one := s.launch(ctx, as, flags("namespace", watch1, late)...)
		cluster, waiting := s.light(ctx, watch1, "granted", importing.Selected), s.light(ctx, late, "prod", importing.Selected)
		s.expectImported(ctx, cluster)
		Expect(s.Reason(ctx, waiting)()).To(Equal("none"))
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

		Expect(s.Client.Create(ctx, importing.NamespaceOf(first))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, importing.NamespaceOf(first))).To(Succeed()) })
		Expect(s.Grant(ctx, as, first)).To(Succeed())
		cluster := s.light(ctx, first, "prod", importing.Selected)
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
		Expect(s.Client.Create(ctx, importing.NamespaceOf(partial))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(s.Client.Delete(ctx, importing.NamespaceOf(partial))).To(Succeed()) })
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
		cluster, waiting := s.light(ctx, watch1, "whole", importing.Selected), s.light(ctx, partial, "prod", importing.Selected)
		s.expectImported(ctx, cluster)
		Expect(s.Reason(ctx, waiting)()).To(Equal("none"))
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
				s.Choose(ctx, importing.Current(ctx, s.Client, importing.NamespaceOf(namespace)), step.label)
			}
			Eventually(s.Reason(ctx, cluster)).WithTimeout(2*patience).Should(Equal(step.reason), step.label)
			Expect(s.Reason(ctx, stranger)()).To(Equal("none"))
		}
		for _, namespace := range []string{watch1, watch3} {
			s.Patch(ctx, importing.Current(ctx, s.Client, importing.NamespaceOf(namespace)), func(o client.Object) { delete(o.GetLabels(), importing.ImportLabel) })
		}
		s.remove(ctx, cluster, stranger)
		one.expectLawful()
	})

	for _, strategy := range importing.Strategies() {
		It("leave what they lose as it is, for another instance to go on with, with "+strategy+" records", Label("long"), func(ctx context.Context) {
			one := s.isolated(ctx, "archelon1", []string{watch1, watch2}, importing.Gate(strategy))
			clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "moved", importing.Selected), s.light(ctx, watch2, "moved", importing.Selected)}
			s.expectImported(ctx, clusters...)
			record := s.recordUID(ctx, strategy, clusters[1])
			Expect(one.Stop()).To(Succeed())

			By("a restart of the one without the namespace")
			one = s.isolated(ctx, "archelon1", []string{watch1}, importing.Gate(strategy))
			s.Choose(ctx, importing.Current(ctx, s.Client, clusters[0]), "false")
			Eventually(s.Reason(ctx, clusters[0])).Should(Equal("False/NotSelected"))
			s.expectUntouched(ctx, clusters[1])
			one.expectNothingAbout(watch2)

			By("a start of the other with it")
			two := s.isolated(ctx, "archelon2", []string{watch2}, importing.Gate(strategy))
			s.Patch(ctx, importing.Current(ctx, s.Client, clusters[1]), func(o client.Object) { o.GetLabels()["team"] = "blue" })
			Eventually(func() map[string]string { return s.Look(ctx).Records(strategy, clusters[1])[0].GetLabels() }).Should(HaveKeyWithValue("team", "blue"))
			Expect(s.recordUID(ctx, strategy, clusters[1])).To(Equal(record))
			s.expectImported(ctx, clusters[1])
			s.remove(ctx, clusters...)
			one.expectLawful()
			two.expectLawful()
			one.expectNothingAbout(watch2)
		})
	}

	It("are moved to another instance in full run", Label("long"), func(ctx context.Context) {
		one := s.isolated(ctx, "archelon1", []string{watch1, watch2}, importing.Gate("v3"))
		clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "handed", importing.Selected), s.light(ctx, watch2, "handed", importing.Selected)}
		s.expectImported(ctx, clusters...)
		record := s.recordUID(ctx, "v3", clusters[1])

		By("rights and scope for both, for a while")
		other := stage.Instance{Name: "archelon2", Isolated: true}
		Expect(s.Install(ctx, other)).To(Succeed())
		binding := importing.Current(ctx, s.Client, roleBindingIn(watch2))
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: other.Namespace(), Name: stage.ServiceAccount})
		Expect(s.Client.Update(ctx, binding)).To(Succeed())
		two := s.launch(ctx, other, "--namespace="+watch2, importing.Gate("v3"))
		Eventually(two.Logs).Should(ContainSubstring("Instance archelon-system/archelon1 has namespaces " + watch2))
		Expect(two.written()).To(BeEmpty())

		By("the first one gives it up")
		Expect(one.Stop()).To(Succeed())
		one.expectLawful()
		again := s.launch(ctx, one.Instance, "--namespace="+watch1, importing.Gate("v3"))
		Expect(s.Grant(ctx, other, watch2)).To(Succeed())
		s.Patch(ctx, importing.Current(ctx, s.Client, clusters[1]), func(o client.Object) { o.GetLabels()["team"] = "blue" })
		Eventually(func() map[string]string { return s.Look(ctx).Records("v3", clusters[1])[0].GetLabels() }).Should(HaveKeyWithValue("team", "blue"))
		Expect(s.recordUID(ctx, "v3", clusters[1])).To(Equal(record))
		Eventually(s.mayRelease(ctx, one, watch2)).Should(BeFalse())
		s.remove(ctx, clusters...)
		again.expectLawful()
		two.expectLawful()
		last := slices.DeleteFunc(again.audited(), func(e auditv1.Event) bool {
			return e.ObjectRef == nil || e.ObjectRef.Namespace != watch2 || e.Verb == "list"
		})
		Expect(last).To(HaveLen(1), importing.Listing(last))
		Expect(says(string(last[0].RequestObject.Raw), "null")).To(BeTrue(), "it lets the cluster go")
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
	records := s.Look(ctx).Records(strategy, cluster)
	Expect(records).To(HaveLen(1))
	return records[0].GetUID()
}
