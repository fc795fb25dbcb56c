package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	// startTenant is the namespace of which the quick starts tell.
	startTenant = "tenant-a"
	startPage   = "docs/README.md"

	turtlesDeployment, turtlesNamespace = "rancher-turtles-controller-manager", "cattle-turtles-system"
)

// quickStart is somebody with kubectl and Helm, who types what the documentation says.
type quickStart struct {
	releases
	environment []string
	clusters    []*clusterv1.Cluster
}

// The quick starts of README.md and of the first page of the documentation, line by line as they are there, but for the
// image: nodes have it already under the name that the page gives it. `make test-image` shows that it can be pushed.
var _ = Describe("Quick starts", Label("kind", "nightly"), func() {
	q := &quickStart{}
	JustAfterEach(func(ctx context.Context) { q.describePods(ctx) })
	BeforeEach(func(ctx context.Context) {
		*q = quickStart{}
		q.begin(ctx)
	})

	It("import all clusters of a namespace where Turtles is not installed", func(ctx context.Context) {
		q.walk(ctx, startPage, "Rancher without Turtles", map[string]func(string, error){
			"kubectl get leases": func(out string, err error) { // It is grep that ends with 1 where there is nothing.
				Expect(err).To(HaveOccurred())
				Expect(out).To(BeEmpty(), "the page says that it prints nothing")
			},
		})
		q.expectEnd(ctx, "archelon")
	})

	It("import all clusters of a namespace beside a Turtles that is parked", func(ctx context.Context) {
		looks := q.turtles(ctx)
		looks["kubectl get configmap rancher-config"] = func(out string, err error) {
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(BeEmpty(), "or else people are to add to what is there")
		}
		q.walk(ctx, startPage, "Rancher with Turtles", looks)
		q.expectEnd(ctx, "archelon")
	})

	It("import all clusters of a namespace as README.md says", func(ctx context.Context) {
		q.walk(ctx, "README.md", "Quick start", q.turtles(ctx))
		q.expectImported(ctx, q.clusters...) // The last line shows how far they are.
		q.expectEnd(ctx, "archelon")
	})

	It("import all clusters of one tenant", func(ctx context.Context) {
		q.walk(ctx, startPage, "One tenant", nil)
		q.expectEnd(ctx, "archelon-a")
	})
})

// begin has a Rancher, and two CAPI clusters of a tenant.
func (q *quickStart) begin(ctx context.Context) {
	GinkgoHelper()
	q.start(ctx)
	Expect(q.Client.Create(ctx, importing.NamespaceOf(startTenant))).To(Succeed())
	for _, name := range []string{"prod", "staging"} {
		q.clusters = append(q.clusters, q.light(ctx, startTenant, name))
	}
	raw, err := q.Management.LocalKubeconfig()
	Expect(err).NotTo(HaveOccurred())
	home := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(home, "kubeconfig"), raw, 0o600)).To(Succeed())
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	program, err := helm.Program()
	Expect(err).NotTo(HaveOccurred())
	q.environment = []string{
		"PATH=" + programs + ":" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "kubeconfig"),
	}
}

// walk types the lines of a quick start. Each has to succeed, unless somebody looks at what it prints who is named for
// its beginning; whoever is not asked fails the test.
func (q *quickStart) walk(ctx context.Context, page, heading string, looks map[string]func(out string, err error)) {
	GinkgoHelper()
	built := false
	for _, line := range linesOf(page, heading) {
		if strings.HasPrefix(line, "make image-push ") {
			name, tag, _ := strings.Cut(stage.PushedImage, ":")
			Expect(line).To(Equal("make image-push IMAGE_REPO=" + name + " IMAGE_TAG=" + tag))
			built = true
			continue
		}
		cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
		cmd.Dir, cmd.Env = stage.Root(), q.environment
		out, err := cmd.CombinedOutput()
		GinkgoWriter.Printf("$ %s\n%s\n", line, out)
		looked := false
		for beginning, look := range looks {
			if strings.HasPrefix(line, beginning) {
				look(string(out), err)
				delete(looks, beginning)
				looked = true
			}
		}
		if !looked {
			Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
		}
	}
	Expect(built).To(BeTrue(), "the page has people push an image")
	Expect(looks).To(BeEmpty(), "lines that the page does not have")
}

// linesOf returns the commands below a heading of a page.
func linesOf(page, heading string) []string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(stage.Root(), page))
	Expect(err).NotTo(HaveOccurred())
	match := regexp.MustCompile("(?s)\n##+ " + heading + "\n.*?```sh\n(.*?)\n```").FindSubmatch(content)
	Expect(match).NotTo(BeNil(), heading)
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(string(match[1]), "\\\n", " "), "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// turtles has a Turtles that imports, as a stock Rancher brings it, and Rancher's settings for it. It returns who plays
// Rancher when somebody parks it, and sees that it is parked.
func (q *quickStart) turtles(ctx context.Context) map[string]func(string, error) {
	GinkgoHelper()
	lease := q.TurtlesAtWork(ctx)
	q.Patch(ctx, lease, func(client.Object) { lease.Spec.LeaseDurationSeconds = new(int32(3600)) })
	Expect(client.IgnoreAlreadyExists(q.Client.Create(ctx, importing.NamespaceOf("cattle-system")))).To(Succeed())
	settings := &corev1.ConfigMap{ObjectMeta: objectMeta("cattle-system", "rancher-config"), Data: map[string]string{"priorityClassName": "rancher-critical"}}
	Expect(q.Client.Create(ctx, settings)).To(Succeed())
	labels := map[string]string{"control-plane": "controller-manager"}
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(turtlesNamespace, turtlesDeployment), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), // Nobody has its program here.
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "rancher/turtles:v0.27.0", Args: []string{"--leader-elect"}}}},
		},
	}}
	Expect(q.Client.Create(ctx, deployment)).To(Succeed())
	return map[string]func(string, error){
		"kubectl patch configmap rancher-config": func(out string, err error) {
			Expect(err).NotTo(HaveOccurred(), out)
			q.parkTurtles(ctx, settings)
		},
		"kubectl get deployment rancher-turtles": func(out string, err error) {
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).To(ContainSubstring("--watch-filter=parked"))
		},
	}
}

// parkTurtles does what Rancher does when its values for Turtles change: it upgrades the chart of Turtles, whose value
// managerArguments has more arguments of the manager.
func (q *quickStart) parkTurtles(ctx context.Context, settings *corev1.ConfigMap) {
	GinkgoHelper()
	Expect(q.Client.Get(ctx, client.ObjectKeyFromObject(settings), settings)).To(Succeed())
	Expect(settings.Data).To(Equal(map[string]string{
		"priorityClassName": "rancher-critical", "rancher-turtles": "managerArguments: [\"--watch-filter=parked\"]\n",
	}))
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(turtlesNamespace, turtlesDeployment)}
	Expect(q.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	q.Patch(ctx, deployment, func(client.Object) {
		manager := &deployment.Spec.Template.Spec.Containers[0]
		manager.Args = append(manager.Args, "--watch-filter=parked")
	})
}

// expectEnd asserts that all clusters are imported when the last line has returned, and that the release can go.
func (q *quickStart) expectEnd(ctx context.Context, name string) {
	GinkgoHelper()
	for _, cluster := range q.clusters {
		Expect(q.Reason(ctx, cluster)()).To(Equal("True/Imported"))
	}
	Expect(q.records(ctx)).To(HaveLen(len(q.clusters)))
	release := helm.Release{Name: name, Namespace: name + "-system", Wait: true, Timeout: 4 * patience}
	Expect(q.helm.Uninstall(ctx, release)).To(Succeed())
	Expect(q.held(ctx)).To(BeEmpty())
}
