// Package helm runs the Helm CLI for tests, so that a chart is installed as its users install it: the Helm 3 of
// module hack/chart, or the Helm 4 of module hack/helm4. Helm sees nothing of the user's: its cache, its
// configuration and its home are directories of its own.
package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/archelon-io/archelon/test/env"
)

// Helm runs the CLI against one cluster. Its methods may be called from several goroutines.
type Helm struct {
	program string
	dir     string
}

// New prepares Helm for the cluster of a kubeconfig; without one only Template and Lint work. The caller has to
// run inside this module and to call Close.
func New(kubeconfig []byte) (*Helm, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "archelon-helm-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for helm: %w", err)
	}
	h := &Helm{program: program, dir: dir}
	for _, sub := range []string{"home", "tmp"} {
		if err := os.Mkdir(h.path(sub), 0o700); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	if err := os.WriteFile(h.path("kubeconfig"), kubeconfig, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the kubeconfig for helm: %w", err), h.Close())
	}
	return h, nil
}

// Close removes Helm's files. Releases stay.
func (h *Helm) Close() error { return os.RemoveAll(h.dir) }

// moduleVariable is the environment variable that names the go.mod of another Helm, from the root of the module.
const moduleVariable = "ARCHELON_HELM"

// Program returns the path of the CLI: of Helm 3, or with ARCHELON_HELM=hack/helm4/go.mod of Helm 4. `make helm` builds
// it. No test does, because that takes minutes in which API servers of other tests wait.
func Program() (string, error) { return cli() }

var cli = sync.OnceValues(func() (string, error) {
	if strings.Contains(os.Getenv(moduleVariable), "helm4") {
		return program("helm", "helm4", "helm.sh/helm/v4")
	}
	return Tool("helm")
})

// Tool returns the path of a program that `make helm` builds: of helm, which is Helm 3, helm-unittest or kubeconform.
func Tool(name string) (string, error) {
	return program(name, "chart", "helm.sh/helm/v3", "github.com/helm-unittest/helm-unittest", "github.com/yannh/kubeconform")
}

// program returns the path of a program that hack/chart/build.sh builds from modules of hack/PART/go.mod.
func program(name, part string, modules ...string) (string, error) {
	dir, err := env.CacheDir(context.Background(), part, modules...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no %s in %s: run `make helm`", name, dir)
	}
	return path, nil
}

// OverOthers are the arguments by which an upgrade takes back what others have changed, as with kubectl scale. Helm 3
// does so without being asked, and has no such flag.
func OverOthers() []string {
	if strings.Contains(os.Getenv(moduleVariable), "helm4") {
		return []string{"--force-conflicts"}
	}
	return nil
}

// run runs the CLI and returns its standard output.
func (h *Helm) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + h.path("home"),
		"TMPDIR=" + h.path("tmp"),
		"HELM_CACHE_HOME=" + h.path("home", "cache"),
		"HELM_CONFIG_HOME=" + h.path("home", "config"),
		"HELM_DATA_HOME=" + h.path("home", "data"),
		"KUBECONFIG=" + h.path("kubeconfig"),
	}
	out, err := output(cmd)
	if err != nil {
		return "", fmt.Errorf("running helm %s: %w", args[0], err)
	}
	return out, nil
}

func (h *Helm) path(elem ...string) string {
	return filepath.Join(append([]string{h.dir}, elem...)...)
}

// output runs a command; the error has all that it wrote.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}
