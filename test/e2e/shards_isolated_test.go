package e2e

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// isolation is an instance with rights in watch1 and watch2 only, next to one of last resort for all other namespaces.
func (s *shards) isolation(strategy string) {
	var (
		one, rest *instance
		clusters  []*clusterv1.Cluster
	)
	BeforeAll(func(ctx context.Context) {
		one = s.isolated(ctx, "archelon1", []string{watch1, watch2}, importing.Gate(strategy))
		rest = s.central(ctx, "archelon2", append(flags("excluded-namespace", watch1, watch2), importing.Gate(strategy))...)
		clusters = s.each(ctx, "isolated")
		s.expectImported(ctx, clusters...)
	})

	It("has each cluster imported by the right instance alone", func(ctx context.Context) {
		w := s.Look(ctx)
		for i, cluster := range clusters {
			owner, other := one, rest
			if i == 2 {
				owner, other = rest, one
			}
			records := w.Records(strategy, cluster)
			Expect(records).To(HaveLen(1))
			for _, object := range []client.Object{cluster, records[0]} {
				name := object.GetNamespace() + "/" + object.GetName()
				Expect(owner.written()).To(ContainElement(name))
				Expect(other.written()).NotTo(ContainElement(name))
			}
		}
	})

	It("asks for nothing in the whole cluster that belongs to namespaces", func() {
		for _, e := range one.scoped() {
			Expect(e.ObjectRef.Namespace).To(BeElementOf(watch1, watch2), e.RequestURI)
		}
		one.expectNothingAbout(watch3)
	})

	It("cannot read a Secret elsewhere", func(ctx context.Context) { one.expectConfined(ctx) })

	It("repairs an agent, for which it reads the tokens", func(ctx context.Context) {
		s.expectRepaired(ctx, strategy, clusters[0])
		for _, name := range []string{"crt-token-default-token", "crt-token-system"} {
			Expect(slices.ContainsFunc(one.audited(), func(e auditv1.Event) bool {
				return e.Verb == "get" && e.ObjectRef != nil && e.ObjectRef.Resource == "secrets" && e.ObjectRef.Name == name
			})).To(BeTrue(), "a read of "+name)
		}
	})

	It("un-imports by label, and imports again", func(ctx context.Context) {
		for _, value := range []string{"false", "true"} {
			s.Choose(ctx, importing.Current(ctx, s.Client, clusters[1]), value)
			if value == "false" {
				Eventually(s.Reason(ctx, clusters[1])).Should(Equal("False/NotSelected"))
			}
		}
		s.expectImported(ctx, clusters[1])
	})

	It("follows a deletion in Rancher, and imports again when the annotation goes", func(ctx context.Context) {
		for _, cluster := range clusters[1:] {
			Expect(s.Client.Delete(ctx, s.Look(ctx).Records(strategy, cluster)[0])).To(Succeed())
			Eventually(s.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		}
		s.Patch(ctx, importing.Current(ctx, s.Client, clusters[1]), func(o client.Object) { o.SetAnnotations(nil) })
		s.expectImported(ctx, clusters[1])
		s.expectUntouched(ctx, clusters[2])
	})

	It("follows a deletion in CAPI", func(ctx context.Context) {
		s.remove(ctx, clusters...)
	})

	AfterAll(func() {
		one.expectLawful()
		rest.expectLawful()
		one.expectNothingAbout(watch3)
	})
}

// expectRepaired has an agent that was removed installed again, and one that is there and does not connect compared
// with all tokens that Rancher accepts: the one that it was installed with, and Rancher's own, with which Rancher
// has applied its agent again.
func (s *shards) expectRepaired(ctx context.Context, strategy string, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	internal := importing.InternalName(s.Look(ctx).Records(strategy, cluster)[0])
	Eventually(func() int { return s.Rancher.Reapplies(internal) }).ShouldNot(BeZero())
	agents := s.inside(cluster).AppsV1().Deployments(importing.AgentNamespace)
	Expect(agents.Delete(ctx, importing.AgentDeployment, metav1.DeleteOptions{})).To(Succeed())
	Eventually(func() (*appsv1.Deployment, error) {
		return agents.Get(ctx, importing.AgentDeployment, metav1.GetOptions{})
	}).WithTimeout(2 * patience).ShouldNot(BeNil())
	s.expectImported(ctx, cluster)

	id := workloadOf(cluster.Namespace, cluster.Name)
	s.Rancher.HoldConnect(true)
	s.Rancher.RemoveWorkload(id)
	Expect(s.Rancher.AddWorkload(id, s.servers.Config(id))).To(Succeed())
	Eventually(s.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
	// The look at the agent ends when it connects.
	Eventually(s.readSecrets).WithArguments(internal).WithPolling(500 * time.Millisecond).Should(ContainElement("crt-token-system"))
	s.Rancher.HoldConnect(false)
	s.expectImported(ctx, cluster)
}

// readSecrets returns the names of the Secrets in a namespace that an instance has got.
func (s *shards) readSecrets(namespace string) []string {
	GinkgoHelper()
	events, err := s.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, e := range events {
		if strings.HasSuffix(e.User.Username, ":"+stage.ServiceAccount) && e.Verb == "get" && e.ObjectRef != nil && e.ObjectRef.Resource == "secrets" && e.ObjectRef.Namespace == namespace {
			names = append(names, e.ObjectRef.Name)
		}
	}
	return names
}

// inside is a client of a light workload cluster.
func (s *shards) inside(cluster *clusterv1.Cluster) kubernetes.Interface {
	GinkgoHelper()
	c, err := kubernetes.NewForConfig(s.servers.Config(workloadOf(cluster.Namespace, cluster.Name)))
	Expect(err).NotTo(HaveOccurred())
	return c
}

// expectConfined asserts that the token of an isolated instance is worth nothing in watch3, and
// is no way out of its rights.
func (i *instance) expectConfined(ctx context.Context) {
	GinkgoHelper()
	config, err := i.shards.Management.ServiceAccountConfig(ctx, i.Namespace(), stage.ServiceAccount)
	Expect(err).NotTo(HaveOccurred())
	config.UserAgent = probe
	c, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())

	for namespace, allowed := range map[string]bool{watch1: true, watch3: false, "": false} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: "isolated-kubeconfig"},
		}}
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.Allowed).To(Equal(allowed), namespace)
	}
	_, err = c.CoreV1().Secrets(watch1).Get(ctx, "isolated-kubeconfig", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())

	refused := func(what string, err error) {
		GinkgoHelper()
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
	_, err = c.CoreV1().Secrets(watch3).Get(ctx, "isolated-kubeconfig", metav1.GetOptions{})
	refused("a Secret in watch3", err)
	_, err = c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	refused("all Secrets", err)
	_, err = c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=isolated-kubeconfig"})
	refused("all Secrets of another name", err)
	_, err = c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=crt-token-system"})
	refused("all Secrets but one", err)
	_, err = c.CoreV1().Secrets(watch1).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "made"}}, metav1.CreateOptions{})
	refused("a new Secret", err)

	binding, err := i.shards.kubernetes().RbacV1().RoleBindings(watch1).Get(ctx, "archelon-isolated", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding.Namespace, binding.ResourceVersion = watch3, ""
	_, err = c.RbacV1().RoleBindings(watch3).Create(ctx, binding, metav1.CreateOptions{})
	refused("its own RoleBinding in watch3", err)
	_, err = c.RbacV1().RoleBindings(watch3).Patch(ctx, binding.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	refused("the RoleBinding of another instance", err)
	binding.Namespace, binding.Name = watch1, "another"
	_, err = c.RbacV1().RoleBindings(watch1).Create(ctx, binding, metav1.CreateOptions{})
	refused("another RoleBinding", err)
}

// kubernetes is an administrator's client of the management cluster.
func (s *shards) kubernetes() kubernetes.Interface {
	GinkgoHelper()
	c, err := kubernetes.NewForConfig(s.Management.Config)
	Expect(err).NotTo(HaveOccurred())
	return c
}
