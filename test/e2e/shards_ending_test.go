package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
)

// endings are about a namespace that is deleted together with the rights that an isolated instance has in it.
func (s *shards) endings(strategy string) {
	var (
		one    *instance
		doomed string
	)
	// begin has an isolated instance import clusters in a namespace of their own.
	begin := func(ctx context.Context, clusters int) []*clusterv1.Cluster {
		GinkgoHelper()
		doomed = s.Namespace(ctx, nil)
		one = s.isolated(ctx, "archelon1", []string{watch1, doomed}, importing.Gate(strategy))
		imported := []*clusterv1.Cluster{s.light(ctx, watch1, "stays", importing.Selected)}
		for i := range clusters {
			imported = append(imported, s.light(ctx, doomed, fmt.Sprint("goes-", i), importing.Selected))
		}
		s.expectImported(ctx, imported...)
		return imported
	}
	expectOver := func(ctx context.Context, survivor *clusterv1.Cluster) {
		GinkgoHelper()
		Eventually(s.K(ctx).Get(importing.NamespaceOf(doomed))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		s.expectImported(ctx, survivor)
		s.remove(ctx, survivor)
	}

	It("is stuck when the rights go first, which the finalizer of the RoleBinding prevents", Label("long"), func(ctx context.Context) {
		clusters := begin(ctx, 1)
		Expect(one.Stop()).To(Succeed())
		binding := roleBindingIn(doomed)
		s.Patch(ctx, importing.Current(ctx, s.Client, binding), func(o client.Object) { o.SetFinalizers(nil) })
		Expect(s.Client.Delete(ctx, importing.NamespaceOf(doomed))).To(Succeed())
		Eventually(s.K(ctx).Get(binding)).Should(Satisfy(apierrors.IsNotFound))
		Eventually(s.mayRelease(ctx, one, doomed)).Should(BeFalse())
		Expect(apierrors.IsForbidden(s.Grant(ctx, one.Instance, doomed))).To(BeTrue(), "nothing can be created in the namespace any more")
		Eventually(func() *metav1.Time { return importing.Current(ctx, s.Client, clusters[1]).DeletionTimestamp }).ShouldNot(BeNil())
		Expect(clusters[1].Finalizers).To(ContainElement(importing.Finalizer))

		By("an instance with permissions everywhere, when the first one is not registered any more")
		s.unregister(ctx, one.Instance)
		s.central(ctx, "archelon2", append(flags("namespace", watch1, doomed), importing.Gate(strategy))...)
		expectOver(ctx, clusters[0])
	})

	It("goes when the instance is back, if it was away", func(ctx context.Context) {
		clusters := begin(ctx, 1)
		Expect(one.Stop()).To(Succeed())
		Expect(s.Client.Delete(ctx, importing.NamespaceOf(doomed))).To(Succeed())
		Eventually(func() *metav1.Time { return importing.Current(ctx, s.Client, roleBindingIn(doomed)).DeletionTimestamp }).ShouldNot(BeNil())
		Expect(s.mayRelease(ctx, one, doomed)()).To(BeTrue(), "RBAC does not care whether a RoleBinding is being deleted")
		Consistently(s.K(ctx).Get(clusters[1])).Should(Succeed())
		one = s.launch(ctx, one.Instance, append(flags("namespace", watch1, doomed), importing.Gate(strategy))...)
		expectOver(ctx, clusters[0])
		one.expectLawful()
	})

	It("goes at once with many clusters while the instance runs, and comes again", Label("long"), func(ctx context.Context) {
		clusters := begin(ctx, 10)
		namespace := importing.NamespaceOf(doomed)
		Expect(s.Client.Delete(ctx, namespace)).To(Succeed())
		Eventually(s.K(ctx).Get(namespace)).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		one.expectLawful()

		Expect(s.Client.Create(ctx, importing.NamespaceOf(doomed))).To(Succeed())
		Expect(s.Grant(ctx, one.Instance, doomed)).To(Succeed())
		again := s.light(ctx, doomed, "again", importing.Selected)
		s.expectImported(ctx, again)
		Expect(s.Client.Delete(ctx, again)).To(Succeed())
		Eventually(s.K(ctx).Get(again)).Should(Satisfy(apierrors.IsNotFound))
		Consistently(func() []string { return importing.Current(ctx, s.Client, roleBindingIn(doomed)).Finalizers }).Should(HaveLen(1))
		Expect(s.Client.Delete(ctx, importing.NamespaceOf(doomed))).To(Succeed())
		expectOver(ctx, clusters[0])
	})
}

// withdrawals are about rights that an administrator takes away in a namespace that stays.
func (s *shards) withdrawals(strategy string) {
	It("lets the clusters and then the RoleBinding go when that is deleted, while it works there and after that", func(ctx context.Context) {
		first, second := s.Namespace(ctx, nil), s.Namespace(ctx, nil)
		one := s.isolated(ctx, "archelon1", []string{watch1, first, second}, importing.Gate(strategy))
		clusters := []*clusterv1.Cluster{
			s.light(ctx, watch1, "stays", importing.Selected), s.light(ctx, first, "left", importing.Selected), s.light(ctx, second, "left", importing.Selected),
		}
		s.expectImported(ctx, clusters...)
		Expect(s.Client.Delete(ctx, roleBindingIn(first))).To(Succeed())
		Eventually(s.K(ctx).Get(roleBindingIn(first))).Should(Satisfy(apierrors.IsNotFound))
		Expect(importing.Current(ctx, s.Client, clusters[1]).Finalizers).NotTo(ContainElement(importing.Finalizer))
		Eventually(s.mayRelease(ctx, one, first)).Should(BeFalse())

		By("a namespace that is no longer in the scope, as when a release of the chart has one less")
		Expect(one.Stop()).To(Succeed())
		Expect(s.Client.Delete(ctx, roleBindingIn(second))).To(Succeed())
		Consistently(s.K(ctx).Get(roleBindingIn(second))).Should(Succeed())
		one = s.launch(ctx, one.Instance, append(flags("namespace", watch1), importing.Gate(strategy))...)
		Eventually(s.K(ctx).Get(roleBindingIn(second))).Should(Satisfy(apierrors.IsNotFound))
		Expect(importing.Current(ctx, s.Client, clusters[2]).Finalizers).NotTo(ContainElement(importing.Finalizer))
		one.expectLawful()

		By("the clusters there, which are nobody's now and stay imported")
		s.expectImported(ctx, clusters...)
		s.central(ctx, "archelon2", append(flags("namespace", first, second), importing.Gate(strategy))...)
		// Until somebody has taken them over, nobody would delete their records with them.
		for _, cluster := range clusters[1:] {
			Eventually(func() []string { return importing.Current(ctx, s.Client, cluster).Finalizers }).Should(ContainElement(importing.Finalizer))
		}
		s.remove(ctx, clusters...)
	})

	It("is over for a replica, too, that leads after that", Label("nightly"), func(ctx context.Context) {
		withdrawn := s.Namespace(ctx, nil)
		one := s.isolated(ctx, "archelon1", []string{watch1, withdrawn}, importing.Gate(strategy))
		next := s.launch(ctx, one.Instance, append(flags("namespace", watch1, withdrawn), importing.Gate(strategy))...)
		clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "stays", importing.Selected), s.light(ctx, withdrawn, "left", importing.Selected)}
		s.expectImported(ctx, clusters...)
		Expect(s.Client.Delete(ctx, roleBindingIn(withdrawn))).To(Succeed())
		Eventually(s.K(ctx).Get(roleBindingIn(withdrawn))).Should(Satisfy(apierrors.IsNotFound))

		Expect(one.Stop()).To(Succeed())
		Eventually(next.Logs).Should(ContainSubstring(`"Starting workers" controller="rancher-import"`))
		clusters = append(clusters, s.light(ctx, watch1, "new", importing.Selected))
		s.expectImported(ctx, clusters...)
		untaken := func() []string { return importing.Current(ctx, s.Client, clusters[1]).Finalizers }
		Consistently(untaken).ShouldNot(ContainElement(importing.Finalizer))

		By("a process that remembers nothing")
		Eventually(next.Logs).WithTimeout(2 * patience).Should(MatchRegexp("may not work in some of its namespaces any more" + again + ".*" + withdrawn))
		clusters = append(clusters, s.light(ctx, watch1, "newer", importing.Selected))
		s.expectImported(ctx, clusters...)
		Consistently(untaken).ShouldNot(ContainElement(importing.Finalizer))
		next.expectLawful()

		s.central(ctx, "archelon2", append(flags("namespace", withdrawn), importing.Gate(strategy))...)
		Eventually(func() []string { return importing.Current(ctx, s.Client, clusters[1]).Finalizers }).Should(ContainElement(importing.Finalizer))
		s.remove(ctx, clusters...)
	})

	// A watch outlives the rights to it by minutes, and is refused for ever after that.
	It("watches nothing any more where it has lost its rights, and everything where it has them again", Label("nightly"), func(ctx context.Context) {
		withdrawn, doomed := s.Namespace(ctx, nil), s.Namespace(ctx, nil)
		one := s.isolated(ctx, "archelon1", []string{watch1, withdrawn, doomed}, importing.Gate(strategy))
		clusters := []*clusterv1.Cluster{s.light(ctx, watch1, "stays", importing.Selected), s.light(ctx, withdrawn, "left", importing.Selected)}
		s.expectImported(ctx, append(clusters, s.light(ctx, doomed, "goes", importing.Selected))...)
		token := s.metricsReader(ctx)
		metrics := func() (string, error) {
			_, body, err := scrape(ctx, one.Metrics, token)
			return body, err
		}
		watching := func(namespace string) func() []string { return func() []string { return one.watching(namespace) } }
		for _, namespace := range []string{watch1, withdrawn, doomed} {
			Eventually(watching(namespace)).Should(HaveLen(3), namespace)
		}
		Eventually(metrics).Should(ContainSubstring("archelon_namespaces_without_rights 0\n"))

		Expect(s.Client.Delete(ctx, roleBindingIn(withdrawn))).To(Succeed())
		Expect(s.Client.Delete(ctx, importing.NamespaceOf(doomed))).To(Succeed())
		Eventually(s.K(ctx).Get(importing.NamespaceOf(doomed))).WithTimeout(2 * patience).Should(Satisfy(apierrors.IsNotFound))
		for _, namespace := range []string{withdrawn, doomed} {
			Eventually(watching(namespace)).WithTimeout(4*patience).Should(BeEmpty(), namespace)
		}
		Eventually(watching(watch1)).Should(HaveLen(3))
		Eventually(metrics).Should(ContainSubstring("archelon_namespaces_without_rights 2\n"))

		Expect(s.Grant(ctx, one.Instance, withdrawn)).To(Succeed())
		Eventually(watching(withdrawn)).WithTimeout(2 * patience).Should(HaveLen(3))
		Eventually(metrics).Should(ContainSubstring("archelon_namespaces_without_rights 1\n"))
		Eventually(func() []string { return importing.Current(ctx, s.Client, clusters[1]).Finalizers }).Should(ContainElement(importing.Finalizer))
		s.expectImported(ctx, clusters...)
		s.remove(ctx, clusters...)
		one.expectLawful()
	})
}

// watching returns the resources that the instance has open watches on in a namespace.
func (i *instance) watching(namespace string) []string {
	GinkgoHelper()
	open := map[types.UID]string{}
	for _, e := range i.audited() {
		switch {
		case e.Verb != "watch" || e.ObjectRef == nil || e.ObjectRef.Namespace != namespace:
		case e.Stage == auditv1.StageResponseStarted:
			open[e.AuditID] = e.ObjectRef.APIGroup + "/" + e.ObjectRef.Resource
		default:
			delete(open, e.AuditID)
		}
	}
	return slices.Collect(maps.Values(open))
}

func roleBindingIn(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "archelon-isolated"}}
}

// mayRelease reports whether the instance may take finalizers off CAPI clusters in a namespace.
func (s *shards) mayRelease(ctx context.Context, i *instance, namespace string) func() bool {
	return func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: i.User(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "patch", Group: "cluster.x-k8s.io", Resource: "clusters",
			},
		}}
		review, err := s.kubernetes().AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return review.Status.Allowed
	}
}
