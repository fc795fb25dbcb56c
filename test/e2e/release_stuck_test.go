package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

// Scenario: a release is uninstalled where no Pod of the hook can run, so there is no log. What Helm prints names the
// notes of the release, and their commands do what the hook would have done.
var _ = Describe("A release where no Pod can run", Label("nightly"), Ordered, func() {
	var (
		r       = &releases{}
		release helm.Release
		records map[string]string
		notes   string
	)
	JustAfterEach(func(ctx context.Context) { r.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		r.start(ctx)
		release = r.release(ctx, "archelon", map[string]any{
			"namespaces": []any{watch1, watch2}, "replicaCount": 1, "uninstall": map[string]any{"timeoutSeconds": 10},
		})
		r.install(ctx, release)
		r.expectImported(ctx, r.light(ctx, watch1, "one", importing.Selected), r.light(ctx, watch2, "two", importing.Selected))
		records = r.records(ctx)
		r.exhaust(ctx, release.Namespace)
	})

	It("fails to be uninstalled with a line that says where to read on", func(ctx context.Context) {
		held := r.held(ctx)
		Expect(held).To(HaveLen(6), "two CAPI clusters, their Rancher clusters and the RoleBindings")
		err := r.helm.Uninstall(ctx, release)
		Expect(err).To(MatchError(MatchRegexp("archelon-uninstall-see-helm-get-notes .*[fF]ailed")))
		Expect(r.held(ctx)).To(Equal(held))
		notes, err = r.helm.Notes(ctx, release)
		Expect(err).NotTo(HaveOccurred())
	})

	It("says in its notes why", func(ctx context.Context) {
		Expect(r.follow(ctx, notes, "kubectl logs")).To(ContainSubstring("No resources found"))
		Expect(r.follow(ctx, notes, "kubectl get events")).To(
			MatchRegexp(`FailedCreate +job/archelon-uninstall-see-helm-get-notes +.*exceeded quota: exhausted`))
	})

	It("is released from outside and uninstalled by what its notes say, and leaves Rancher clusters alone", func(ctx context.Context) {
		Expect(r.follow(ctx, notes, "archelon uninstall")).To(ContainSubstring("Done: 2 CAPI clusters, 2 Rancher clusters and 2 RoleBindings released"))
		Expect(r.held(ctx)).To(BeEmpty())
		Expect(notes).To(ContainSubstring("\n  helm uninstall archelon --namespace archelon-system --no-hooks\n"))
		release.Args = []string{"--no-hooks"}
		Expect(r.helm.Uninstall(ctx, release)).To(Succeed())
		Expect(r.left(ctx, release)).To(ConsistOf("JobList archelon-system/archelon-uninstall-see-helm-get-notes"))
		Expect(r.records(ctx)).To(Equal(records))
	})
})

// exhaust keeps further Pods out of a namespace. Those that are there go on.
func (r *releases) exhaust(ctx context.Context, namespace string) {
	GinkgoHelper()
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(namespace, "exhausted"), Spec: corev1.ResourceQuotaSpec{Hard: none}}
	Expect(r.Client.Create(ctx, quota)).To(Succeed())
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // Nobody else counts here.
	Expect(r.Client.Status().Update(ctx, quota)).To(Succeed())
}

// follow runs the command of the notes that begins like this, as it is but for the path of the kubeconfig,
// and returns what it prints.
func (r *releases) follow(ctx context.Context, notes, beginning string) string {
	GinkgoHelper()
	_, rest, found := strings.Cut(notes, "\n  "+beginning+" ")
	Expect(found).To(BeTrue(), "%s in %s", beginning, notes)
	arguments, _, _ := strings.Cut(rest, "\n")
	raw, err := r.Management.LocalKubeconfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	command := beginning + " " + strings.ReplaceAll(arguments, "=PATH", "="+kubeconfig)
	if strings.HasPrefix(beginning, "kubectl") {
		command += " --kubeconfig=" + kubeconfig
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-euc", command)
	cmd.Env = []string{"PATH=" + filepath.Dir(manager) + ":" + programs, "HOME=" + GinkgoT().TempDir()}
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	AddReportEntry(beginning, string(out))
	return string(out)
}
