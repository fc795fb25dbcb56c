package fleet_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/outside"
	"github.com/archelon-io/archelon/test/process"
	"github.com/archelon-io/archelon/test/stage"
)

// allow gives a user of the management cluster the permissions of a file, and returns the path of the user's
// kubeconfig.
func allow(ctx context.Context, name string, file ...string) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(append([]string{stage.Root()}, file...)...))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
	role.Name = name
	Expect(managementAdmin.Create(ctx, role)).To(Succeed())
	Expect(managementAdmin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})).To(Succeed())
	user, err := management.User(name)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := management.KubeconfigFor(user)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	return path
}

var _ = Describe("The library in a repository of others", func() {
	It("runs the example of the documentation, and brings nothing of Rancher along", func(ctx SpecContext) {
		module := outside.New(ctx, "providers/capi")
		module.Take("examples", "cluster-api", "main.go")
		module.Take("go.sum")
		module.Go(ctx, "build", "-o", "example", ".")
		module.ExpectPlain(ctx)

		w := newWorld(ctx)
		Expect(workloadAdmin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "elephant"}})).To(Succeed())
		w.kubeconfig(ctx, "zoo", workload, workload.Config)
		w.cluster(ctx, "zoo", clusterv1.ClusterPhaseProvisioned)
		output := gbytes.NewBuffer()
		example := exec.CommandContext(ctx, filepath.Join(module.Dir, "example"))
		example.Env = append(os.Environ(), "KUBECONFIG="+allow(ctx, "library-"+w.namespace, "providers", "capi", "examples", "cluster-api", "rbac.yaml"))
		example.Stdout, example.Stderr = output, output
		running, err := process.Start(example)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(running.KillGroup)
		Eventually(output).Should(gbytes.Say(`ConfigMap found.*"cluster": "` + w.namespace + `/zoo".*"name":"elephant"`))
		Expect(running.Stop(time.Minute)).To(Succeed())
		Expect(running.ExitCode()).To(BeZero(), string(output.Contents()))
	}, SpecTimeout(15*time.Minute))
})
