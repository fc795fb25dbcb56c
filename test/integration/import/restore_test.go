package import_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// Scenario: CAPI clusters come back from a backup with other UIDs, while their records are still there. The page about
// backups has the commands that attach them again.
var _ = Describe("A CAPI cluster that is restored beside its record", func() {
	for _, strategy := range importing.Strategies() {
		It("gets its own back by the commands of the page, and nobody else's, as "+strategy, nightlyUnless(strategy == "v3"), func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{Name: "restore-" + strategy})
			namespace := f.Namespace(ctx, nil)
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			cluster := f.Cluster(ctx, namespace, "prod", importing.Selected)
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
			record := f.Look(ctx).Records(strategy, cluster)[0]
			Expect(f.Manager.Stop()).To(Succeed())

			By("restoring it as a tool does that drops UIDs and ownerReferences")
			f.Patch(ctx, importing.Current(ctx, f.Client, record), func(o client.Object) { o.SetOwnerReferences(nil) })
			backup := importing.Current(ctx, f.Client, cluster).DeepCopy()
			f.Patch(ctx, cluster, func(o client.Object) { o.SetFinalizers(nil) })
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
			restored := &clusterv1.Cluster{Spec: backup.Spec, ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: backup.Name, Labels: backup.Labels, Annotations: backup.Annotations, Finalizers: backup.Finalizers,
			}}
			Expect(f.Client.Create(ctx, restored)).To(Succeed())
			f.Status(ctx, restored, builder.ControlPlaneUp)

			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.Reason(ctx, restored)).Should(Equal("False/ForeignRancherCluster"))
			Expect(f.Manager.Stop()).To(Succeed())

			By("attaching it, beside two of a tenant who would like to have that record, one that comes first and one that comes last")
			for _, name := range []string{"a-thief", "z-thief"} {
				f.ClusterWith(ctx, namespace, name, []byte("none"), func(c *clusterv1.Cluster) {
					importing.SetAnnotation(c, importing.RecordKey, strategy+"/"+record.GetName())
				})
			}
			f.shell(ctx, commandsOf("backup.md", "## Attach Rancher clusters again"))
			f.run(ctx, importing.Gate(strategy), "--sync-period=1h")
			Eventually(f.Reason(ctx, restored)).Should(Equal("True/Imported"))
			attached := f.Look(ctx).Records(strategy, restored)
			Expect(attached).To(HaveExactElements(HaveField("GetUID()", record.GetUID())))
			if strategy == "v1" {
				Expect(attached[0].GetOwnerReferences()).To(HaveExactElements(HaveField("UID", restored.UID)))
			}

			By("and ends with it")
			Expect(f.Client.Delete(ctx, restored)).To(Succeed())
			Eventually(f.K(ctx).Get(restored)).Should(Satisfy(apierrors.IsNotFound))
			Eventually(f.K(ctx).Get(record)).Should(Satisfy(apierrors.IsNotFound))
		})
	}
})

// commandsOf returns the first commands after a heading of a page for operators.
func commandsOf(page, heading string) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(stage.Root(), "docs", "operations", page))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(raw), "\n"+heading+"\n")
	Expect(found).To(BeTrue())
	_, block, found := strings.Cut(section, "\n```sh\n")
	Expect(found).To(BeTrue())
	commands, _, found := strings.Cut(block, "\n```\n")
	Expect(found).To(BeTrue())
	return commands
}

// shell runs commands in the management cluster as an administrator does.
func (f *fixture) shell(ctx context.Context, commands string) {
	GinkgoHelper()
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	raw, err := f.Management.LocalKubeconfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	AddReportEntry("output", string(out))
}
