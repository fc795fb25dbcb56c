package hostclaim_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// alone is a management cluster with the CRDs of Metal3 and of the chart, and with no others.
type alone struct {
	*world

	cluster *apart.Cluster
	values  map[string]any
	stop    func() error
	probes  string
}

func newAlone(ctx context.Context, values map[string]any) *alone {
	GinkgoHelper()
	crds, err := env.HostClaimCRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	crds = slices.DeleteFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Group != "metal3.io" })
	plane, err := env.Start(ctx, env.Options{Name: "alone", CRDs: crds, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	cluster := apart.New(ctx, plane)
	a := &alone{world: &world{plane: plane, admin: cluster.Client, scheme: known, printed: &log{}}, cluster: cluster, values: values}
	for _, name := range []string{"infra", "team-a"} {
		a.namespace(ctx, name)
	}
	a.operate()
	a.host(ctx, "infra", "h", func(host *bmov1.BareMetalHost) { host.Annotations = nil })
	return a
}

// begin starts the manager as the chart does, and waits until it is ready.
func (a *alone) begin(ctx context.Context) {
	GinkgoHelper()
	a.probes, a.stop = a.cluster.Run(ctx, a.values, nil)
	Eventually(func() error { return stage.Ready(ctx, a.probes) }).Should(Succeed())
}

// shell runs commands of the page, without those of Helm.
func (a *alone) shell(ctx context.Context, commands string) {
	GinkgoHelper()
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	raw, err := a.plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
	cmd := exec.CommandContext(ctx, "bash", "-euc", "helm() { :; }\n"+commands)
	cmd.Dir, cmd.Env = stage.Root(), append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// installation returns the commands of the page that installs Archelon beside Metal3 alone, and the values in them.
func installation() (commands string, values map[string]any) {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(stage.Root(), "docs", "operations", "install.md"))
	Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?s)\n## Metal3 alone.*?```sh\n(.*?)```").FindSubmatch(page)
	Expect(block).NotTo(BeNil())
	Expect(strings.Count(string(block[1]), "\n")).To(BeNumerically("<=", 10))
	values = map[string]any{"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"}}
	for _, set := range regexp.MustCompile(`--set (\S+)`).FindAllSubmatch(block[1], -1) {
		for assignment := range strings.SplitSeq(string(set[1]), ",") {
			path, value, _ := strings.Cut(assignment, "=")
			var typed any = value
			if value == "true" || value == "false" {
				typed = value == "true"
			}
			Expect(unstructured.SetNestedField(values, typed, strings.Split(path, ".")...)).To(Succeed())
		}
	}
	return string(block[1]), values
}

// unwanted returns the manager's requests for kinds of CAPI and Rancher, and what it was refused.
func (a *alone) unwanted() []string {
	GinkgoHelper()
	events, err := a.plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, event := range events {
		if event.User.Username == "system:serviceaccount:"+system+":"+account && event.ObjectRef != nil && unwanted(event) {
			found = append(found, event.Verb+" "+event.RequestURI)
		}
	}
	return found
}

func unwanted(event auditv1.Event) bool {
	group := event.ObjectRef.APIGroup
	refused := event.ResponseStatus != nil && event.ResponseStatus.Code == 403
	return strings.HasSuffix(group, "cattle.io") || strings.HasSuffix(group, "cluster.x-k8s.io") || refused
}

var _ = Describe("Where there is Metal3 alone", func() {
	const infra, team = "infra", "team-a"
	isolated := map[string]any{"namespaces": []any{infra, team}}

	DescribeTable("the installation of the page gives hosts to claims", func(ctx SpecContext, further map[string]any) {
		commands, values := installation()
		maps.Copy(values, further)
		a := newAlone(ctx, values)
		a.begin(ctx)
		a.shell(ctx, commands)
		Expect(a.consumer(ctx, infra, "h")()).To(Equal(team + "/my-host"))

		By("releasing the host")
		a.shell(ctx, "kubectl delete --namespace team-a --filename examples/hostclaim.yaml --timeout=2m")
		Eventually(a.consumer(ctx, infra, "h")).Should(BeEmpty())

		By("a claim that names a Cluster, which nobody could create")
		a.create(ctx, labelled(team, "of-a-cluster", "c"))
		Eventually(a.consumer(ctx, infra, "h")).Should(Equal(team + "/of-a-cluster"))
		Consistently(func() error { return stage.Ready(ctx, a.probes) }).Should(Succeed())
		Expect(a.unwanted()).To(BeEmpty())

		if len(further) > 0 {
			By("withdrawing the permissions in a namespace")
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "archelon-isolated"}}
			Expect(a.admin.Delete(ctx, binding)).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(a.admin.Get(ctx, client.ObjectKeyFromObject(binding), binding))
			}).Should(BeTrue())
			Eventually(func() []string { return a.getClaim(ctx, team, "of-a-cluster").Finalizers }).Should(BeEmpty())
		}

		By("uninstalling the release as the chart does")
		Expect(a.stop()).To(Succeed())
		a.uninstall(ctx)
		Expect(a.getClaim(ctx, team, "of-a-cluster").Finalizers).To(BeEmpty())
		Expect(a.consumer(ctx, infra, "h")()).To(Equal(team + "/of-a-cluster"))
	},
		Entry("of all namespaces", nil),
		Entry("of named ones", isolated),
	)

	It("a CAPI Cluster pauses its claims as soon as Cluster API is installed", func(ctx SpecContext) {
		_, values := installation()
		a := newAlone(ctx, values)
		a.begin(ctx)
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		_, err = envtest.InstallCRDs(a.plane.Config, envtest.CRDInstallOptions{CRDs: crds})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return stage.Ready(ctx, a.probes) }).Should(MatchError(ContainSubstring("connection refused")), "it ends")
		Expect(a.stop()).To(Succeed())

		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "c"}}
		cluster.Spec.Paused = new(true)
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "c.example", Port: 6443}
		a.create(ctx, cluster)
		a.create(ctx, labelled(team, "claim", "c"))
		a.changeHost(ctx, infra, "h", func(host *bmov1.BareMetalHost) {
			host.Annotations = map[string]string{"hostclaims.metal3.io/namespaces": "*"}
		})
		a.begin(ctx)
		Consistently(a.consumer(ctx, infra, "h")).Should(BeEmpty())
		Expect(a.cluster.K(ctx).Update(cluster, func() { cluster.Spec.Paused = new(false) })()).To(Succeed())
		Eventually(a.consumer(ctx, infra, "h")).Should(Equal(team + "/claim"))
	})
})

// labelled is a claim of a CAPI Cluster.
func labelled(namespace, name, cluster string) *unstructured.Unstructured {
	claim := unstructuredClaim(namespace, name)
	claim.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster})
	claim.Object["spec"] = map[string]any{
		"kind": "baremetal", "online": false, "hostSelector": map[string]any{"matchLabels": map[string]any{"infra-kind": "medium"}},
	}
	return claim
}

// uninstall runs what the Job of the chart runs, as its ServiceAccount.
func (a *alone) uninstall(ctx context.Context) {
	GinkgoHelper()
	who, err := a.plane.ServiceAccountConfig(ctx, system, "archelon.uninstall")
	Expect(err).NotTo(HaveOccurred())
	for _, object := range apart.Render(ctx, "archelon", a.values) {
		if object.GetKind() != "Job" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		Expect(err).NotTo(HaveOccurred())
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args") //nolint:forcetypeassert // of a Job
		Expect(err).NotTo(HaveOccurred())
		opts, flags := uninstall.NewOptions(), pflag.NewFlagSet(uninstall.Name, pflag.ContinueOnError)
		opts.AddFlags(flags)
		Expect(flags.Parse(strings.Split(strings.ReplaceAll(strings.Join(args[1:], "\n"), "$(POD_NAMESPACE)", system), "\n"))).To(Succeed())
		Expect(uninstall.Run(ctx, who, opts, GinkgoWriter)).To(Succeed())
		return
	}
	Fail("the chart has no Job")
}
