package status_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

var _ = Describe("archelon status", Ordered, func() {
	var (
		plane  *env.ControlPlane
		admin  client.Client
		reader *rest.Config
	)

	// run runs the command as somebody who may read CAPI Clusters and nothing else.
	run := func(ctx context.Context, as *rest.Config, args ...string) (out, notes string, err error) {
		GinkgoHelper()
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		raw, err := plane.KubeconfigFor(as)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
		printed, said := &bytes.Buffer{}, &bytes.Buffer{}
		cmd := status.Command()
		cmd.SetArgs(append([]string{"--kubeconfig=" + kubeconfig}, args...))
		cmd.SetOut(printed)
		cmd.SetErr(said)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err = cmd.ExecuteContext(ctx)
		return printed.String(), said.String(), err
	}
	cluster := func(ctx context.Context, namespace, name string, labels map[string]string, is metav1.ConditionStatus, reason string) {
		GinkgoHelper()
		object := builder.Cluster(namespace, name)
		object.Labels = labels
		object.Annotations = map[string]string{"archelon.io/instance": "archelon-system/archelon"}
		Expect(admin.Create(ctx, object)).To(Succeed())
		if reason != "" {
			builder.SetCondition(object, "RancherImported", is, reason)
			Expect(admin.Status().Update(ctx, object)).To(Succeed())
		}
	}
	become := func(ctx context.Context, namespace, name string, is metav1.ConditionStatus, reason string) {
		GinkgoHelper()
		object := &clusterv1.Cluster{}
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)).To(Succeed())
		builder.SetCondition(object, "RancherImported", is, reason)
		Expect(admin.Status().Update(ctx, object)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		plane, err = env.Start(ctx, env.Options{Name: "status", CRDs: crds, Audit: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
		known, err := scheme.New()
		Expect(err).NotTo(HaveOccurred())
		admin, err = client.New(plane.Config, client.Options{Scheme: known})
		Expect(err).NotTo(HaveOccurred())
		reader, err = plane.User("reader")
		Expect(err).NotTo(HaveOccurred())
		for _, object := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}},
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "reader"},
				Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list", "watch"},
				}},
			},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "reader"},
				Subjects:   []rbacv1.Subject{{Kind: "User", Name: "reader"}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
			},
		} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		cluster(ctx, "team-a", "prod", map[string]string{"stage": "prod"}, metav1.ConditionTrue, "Imported")
		cluster(ctx, "team-a", "test", nil, metav1.ConditionFalse, "WaitingForAgent")
		cluster(ctx, "team-b", "new", nil, "", "")
	})

	It("shows all clusters in one table, in order", func(ctx SpecContext) {
		out, notes, err := run(ctx, reader, "-A")
		Expect(err).NotTo(HaveOccurred())
		Expect(notes).To(BeEmpty())
		Expect(out).To(MatchRegexp(`^NAMESPACE +NAME +IMPORTED +REASON +SINCE +RANCHER CLUSTER +AGENT +INSTANCE\n` +
			`team-a +prod +True +Imported +\d+s +- +connected +archelon-system/archelon\n` +
			`team-a +test +False +WaitingForAgent +\d+s +- +waiting +archelon-system/archelon\n` +
			`team-b +new +- +- +- +- +- +archelon-system/archelon\n$`))
	})

	DescribeTable("shows what is asked for", func(ctx SpecContext, args []string, want ...string) {
		out, _, err := run(ctx, reader, append(args, "-o", "json")...)
		Expect(err).NotTo(HaveOccurred())
		var found struct{ Items []status.Cluster }
		Expect(json.Unmarshal([]byte(out), &found)).To(Succeed())
		names := []string{}
		for _, item := range found.Items {
			names = append(names, item.Namespace+"/"+item.Name)
		}
		Expect(names).To(HaveExactElements(want))
	},
		Entry("a namespace", []string{"-n", "team-a"}, "team-a/prod", "team-a/test"),
		Entry("labels", []string{"-A", "-l", "stage in (prod)"}, "team-a/prod"),
		Entry("reasons", []string{"-A", "--reason=WaitingForAgent,Imported"}, "team-a/prod", "team-a/test"),
		Entry("what is not imported", []string{"-A", "--not-imported"}, "team-a/test", "team-b/new"),
		Entry("an instance", []string{"-A", "--instance=other/one"}),
	)

	It("says that there is nothing, where to look, and what is missing", func(ctx SpecContext) {
		out, notes, err := run(ctx, reader)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(BeEmpty())
		Expect(notes).To(Equal("No CAPI clusters found in namespace default. All namespaces: --all-namespaces\n"))
		nobody, err := plane.User("nobody")
		Expect(err).NotTo(HaveOccurred())
		_, _, err = run(ctx, nobody, "-A")
		Expect(err).To(MatchError(ContainSubstring("ask for the permission to list clusters.cluster.x-k8s.io")))
	})

	It("goes on with what changes, once each, until it is ended", func(ctx SpecContext) {
		watching, end := context.WithCancel(ctx)
		defer end()
		c, err := client.NewWithWatch(reader, client.Options{Scheme: admin.Scheme(), Mapper: scheme.Mapper()})
		Expect(err).NotTo(HaveOccurred())
		out, ended := gbytes.NewBuffer(), make(chan error, 1)
		opts := status.Options{Watch: true, NotImported: true, Namespace: "team-a"}
		go func() { ended <- status.Run(watching, c, opts, out, GinkgoWriter) }()
		Eventually(out).Should(gbytes.Say(`NAMESPACE .*\nteam-a +test +False +WaitingForAgent`))
		become(ctx, "team-a", "prod", metav1.ConditionFalse, "AgentDisconnected")
		Eventually(out).Should(gbytes.Say(`^[^\n]*\nteam-a +prod +False +AgentDisconnected +\d+s +- +disconnected`))
		By("one that is shown no more, is said once to be imported")
		become(ctx, "team-a", "prod", metav1.ConditionTrue, "Imported")
		Eventually(out).Should(gbytes.Say(`^[^\n]*\nteam-a +prod +True +Imported`))
		By("what concerns nobody, and a cluster that goes")
		cluster(ctx, "team-b", "other", nil, metav1.ConditionFalse, "WaitingForAgent")
		become(ctx, "team-a", "prod", metav1.ConditionTrue, "Imported")
		Expect(admin.Delete(ctx, builder.Cluster("team-a", "test"))).To(Succeed())
		Eventually(out).Should(gbytes.Say(`^[^\n]*\nteam-a +test +False +\(deleted\)`))
		end()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("tells of a cluster that goes before the watch begins", func(ctx SpecContext) {
		cluster(ctx, "team-a", "short", nil, metav1.ConditionFalse, "WaitingForAgent")
		watching, end := context.WithCancel(ctx)
		defer end()
		plain, err := client.NewWithWatch(reader, client.Options{Scheme: admin.Scheme(), Mapper: scheme.Mapper()})
		Expect(err).NotTo(HaveOccurred())
		listed := false
		c := interceptor.NewClient(plain, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := c.List(ctx, list, opts...); err != nil || listed {
					return err
				}
				listed = true
				return admin.Delete(ctx, builder.Cluster("team-a", "short"))
			},
		})
		out, ended := gbytes.NewBuffer(), make(chan error, 1)
		go func() {
			ended <- status.Run(watching, c, status.Options{Watch: true, Namespace: "team-a"}, out, GinkgoWriter)
		}()
		Eventually(out).Should(gbytes.Say(`team-a +short +False +WaitingForAgent`))
		Eventually(out).Should(gbytes.Say(`team-a +short +False +\(deleted\)`))
		end()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("says that watching is not permitted", func(ctx SpecContext) {
		lister, err := plane.User("lister")
		Expect(err).NotTo(HaveOccurred())
		for _, object := range []client.Object{
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "lister"},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list"}}},
			},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "lister"},
				Subjects:   []rbacv1.Subject{{Kind: "User", Name: "lister"}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lister"},
			},
		} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		_, _, err = run(ctx, lister, "-A", "--watch")
		Expect(err).To(MatchError(ContainSubstring("ask for the permission to watch clusters.cluster.x-k8s.io")))
	})

	It("has asked for nothing else", func() {
		requests, err := plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		for _, request := range requests {
			if request.User.Username == "reader" {
				Expect(request.Verb).To(BeElementOf("list", "watch"), request.RequestURI)
				Expect(request.RequestURI).To(MatchRegexp(`^/apis/cluster.x-k8s.io/v1beta2/(namespaces/[a-z-]+/)?clusters(\?|$)`))
			}
		}
	})
})
