package helm_test

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/node"
)

const chart = "testdata/chart"

var _ = Describe("Helm without a cluster", Ordered, func() {
	var cli *helm.Helm

	BeforeAll(func() { cli = start(nil) })

	It("renders a chart with values, the later ones over the earlier ones", func(ctx SpecContext) {
		objects, err := cli.Template(ctx, helm.Release{
			Name: "red", Namespace: "here", Chart: chart, ValuesYAML: "color: blue\nimage: other", Values: map[string]any{"color": "green"},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(kinds(objects)).To(ConsistOf("ServiceAccount", "ConfigMap", "Service", "Deployment", "Job"))
		for _, object := range objects {
			Expect(object.GetNamespace()).To(Equal("here"))
		}
		Expect(color(objects)).To(Equal("green"))
	})

	It("lints a chart and tells what is wrong", func(ctx SpecContext) {
		Expect(cli.Lint(ctx, helm.Release{Chart: chart})).To(Succeed())
		err := cli.Lint(ctx, helm.Release{Chart: chart, Values: map[string]any{"color": 5}})
		Expect(err).To(MatchError(ContainSubstring("got number, want string")))
	})
})

var _ = Describe("a release", Ordered, func() {
	const namespace = "released"
	var (
		cli     *helm.Helm
		admin   client.Client
		cluster *env.ControlPlane
		release = helm.Release{Name: "small", Namespace: namespace, Chart: chart, Wait: true, Timeout: 5 * time.Minute}
	)

	BeforeAll(func(ctx SpecContext) {
		var err error
		cluster, err = env.Start(ctx, env.Options{Name: "helm", Workloads: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cluster.Stop)
		machine, err := node.Start(ctx, node.Options{
			Cluster: cluster, Out: GinkgoWriter, Images: map[string]string{"registry.test/sh:v1": "/bin/sh"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(machine.Stop)
		admin, err = client.New(cluster.Config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := cluster.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		cli = start(kubeconfig)
	})

	get := func(ctx context.Context, object client.Object) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "small"}, object)
	}
	installedColor := func(ctx context.Context) string {
		GinkgoHelper()
		object := &corev1.ConfigMap{}
		Expect(get(ctx, object)).To(Succeed())
		return object.Data["color"]
	}

	It("is installed, and ready when Helm returns", func(ctx SpecContext) {
		first := release
		first.Args = []string{"--create-namespace"}
		Expect(cli.Install(ctx, first)).To(Succeed())
		object := &appsv1.Deployment{}
		Expect(get(ctx, object)).To(Succeed())
		Expect(object.Status.AvailableReplicas).To(Equal(int32(1)))
		status, err := cli.Status(ctx, release)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Info.Status).To(Equal("deployed"))
		objects, err := cli.Manifest(ctx, release)
		Expect(err).NotTo(HaveOccurred())
		Expect(kinds(objects)).To(ConsistOf("ServiceAccount", "ConfigMap", "Service", "Deployment"))
	})

	It("is not installed twice", func(ctx SpecContext) {
		Expect(cli.Install(ctx, release)).To(MatchError(ContainSubstring("a name that is still in use")))
	})

	It("is upgraded", func(ctx SpecContext) {
		next := release
		next.Values = map[string]any{"color": "blue"}
		Expect(cli.Upgrade(ctx, next)).To(Succeed())
		Expect(installedColor(ctx)).To(Equal("blue"))
		object := &appsv1.Deployment{}
		Expect(get(ctx, object)).To(Succeed())
		Expect(object.Status.UpdatedReplicas).To(Equal(int32(1)))
	})

	It("fails an upgrade whose Pods do not come up, and is rolled back", func(ctx SpecContext) {
		broken := release
		broken.Values = map[string]any{"color": "black", "image": "registry.test/unknown:v1"}
		broken.Timeout = 3 * time.Second
		Expect(cli.Upgrade(ctx, broken)).NotTo(Succeed())
		Expect(cli.Rollback(ctx, release, 0)).To(Succeed())
		Expect(installedColor(ctx)).To(Equal("blue"))

		revisions, err := cli.History(ctx, release)
		Expect(err).NotTo(HaveOccurred())
		var statuses []string
		for _, revision := range revisions {
			statuses = append(statuses, revision.Status)
		}
		Expect(statuses).To(Equal([]string{"superseded", "superseded", "failed", "deployed"}))
	})

	It("stays when a hook fails, which Helm tells", func(ctx SpecContext) {
		failing := release
		failing.Values = map[string]any{"hook": map[string]any{"exitCode": 7}}
		Expect(cli.Upgrade(ctx, failing)).To(Succeed())
		err := cli.Uninstall(ctx, release)
		Expect(err).To(MatchError(MatchRegexp(`small-clean-up.*(BackoffLimitExceeded|Failed)`)))
		Expect(get(ctx, &appsv1.Deployment{})).To(Succeed())
		status, err := cli.Status(ctx, release)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Info.Status).To(Equal("uninstalling"))
	})

	It("is uninstalled once the hook succeeds", func(ctx SpecContext) {
		settings := &corev1.ConfigMap{}
		Expect(get(ctx, settings)).To(Succeed())
		settings.Data["exitCode"] = "0"
		Expect(admin.Update(ctx, settings)).To(Succeed())
		Expect(cli.Uninstall(ctx, release)).To(Succeed())
		Expect(apierrors.IsNotFound(get(ctx, &appsv1.Deployment{}))).To(BeTrue())
		jobs := &batchv1.JobList{}
		Expect(admin.List(ctx, jobs, client.InNamespace(namespace))).To(Succeed())
		for _, job := range jobs.Items {
			Expect(job.DeletionTimestamp).NotTo(BeNil(), job.Name)
		}
		_, err := cli.Status(ctx, release)
		Expect(err).To(MatchError(ContainSubstring("not found")))
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	})
})

// start prepares Helm and shows at the end that it has left the user's directories alone.
func start(kubeconfig []byte) *helm.Helm {
	GinkgoHelper()
	cli, err := helm.New(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	home := GinkgoT().TempDir() // only now: Go finds its caches by these
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		GinkgoT().Setenv(name, home)
	}
	DeferCleanup(func() {
		Expect(cli.Close()).To(Succeed())
		Expect(os.ReadDir(home)).To(BeEmpty())
	})
	return cli
}

func kinds(objects []unstructured.Unstructured) []string {
	var all []string
	for _, object := range objects {
		all = append(all, object.GetKind())
	}
	return all
}

func color(objects []unstructured.Unstructured) string {
	GinkgoHelper()
	for _, object := range objects {
		if object.GetKind() == "ConfigMap" {
			value, _, err := unstructured.NestedString(object.Object, "data", "color")
			Expect(err).NotTo(HaveOccurred())
			return value
		}
	}
	return ""
}
