package apart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// Attach runs the commands for Clusters that clusterctl has moved, with access to Rancher's cluster and to the
// management cluster that the namespace was moved to.
func Attach(ctx context.Context, in *env.ControlPlane, moved *Cluster, namespace string) {
	GinkgoHelper()
	Run(ctx, in, Commands("docs/operations/backup.md", "## After clusterctl move", "$MANAGEMENT"),
		"MANAGEMENT="+kubeconfig("management", moved.ControlPlane), "NAMESPACE="+namespace)
}

// Commands returns the first block of commands in a section of a page that contains a text.
func Commands(page, section, text string) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(stage.Root(), filepath.FromSlash(page)))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(raw), "\n"+section+"\n")
	Expect(found).To(BeTrue(), "%s has no section %s", page, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for {
		_, after, found := strings.Cut(rest, "```sh\n")
		Expect(found).To(BeTrue(), "section %s of %s has no commands with %s", section, page, text)
		block, after, _ := strings.Cut(after, "```\n")
		if strings.Contains(block, text) {
			return block
		}
		rest = after
	}
}

func kubeconfig(name string, of *env.ControlPlane) string {
	GinkgoHelper()
	raw, err := of.LocalKubeconfig()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
	return path
}

// Run runs commands in a shell that has kubectl for a cluster, with more variables of the environment, and returns what
// they print. Variables of the same name as earlier ones win.
func Run(ctx context.Context, in *env.ControlPlane, commands string, variables ...string) string {
	GinkgoHelper()
	programs, err := env.Assets()
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig("rancher", in))
	cmd.Env = append(cmd.Env, variables...)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	AddReportEntry("output", string(out))
	return string(out)
}
