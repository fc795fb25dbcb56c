package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	envAssets = "KUBEBUILDER_ASSETS"
	envCache  = "ARCHELON_CACHE"
)

// Assets returns the directory with etcd, kube-apiserver, kube-controller-manager
// and kubectl: KUBEBUILDER_ASSETS when set, else the directory that `make
// controlplane` fills, controlplane/VERSION-OS-ARCH below ARCHELON_CACHE or
// below archelon in the user's cache directory. The version is that of
// k8s.io/kubernetes in hack/controlplane/go.mod, so outside KUBEBUILDER_ASSETS
// the caller has to run inside this module.
//
// The error says to run `make controlplane` when there is no API server in it.
func Assets() (string, error) {
	return assets(context.Background())
}

func assets(ctx context.Context) (string, error) {
	dir := os.Getenv(envAssets)
	if dir == "" {
		var err error
		if dir, err = CacheDir(ctx, "controlplane", "k8s.io/kubernetes"); err != nil {
			return "", err
		}
	}
	if _, err := binary(dir, "kube-apiserver"); err != nil {
		return "", err
	}
	return dir, nil
}

// binary is the path of one of the programs in dir.
func binary(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no %s in %s: run `make controlplane` (%s, when set, has to hold all the programs)",
			name, dir, envAssets)
	} else if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	return path, nil
}

// CacheDir returns the directory that hack/PART/build.sh fills: PART/VERSION-OS-ARCH below ARCHELON_CACHE or below
// archelon in the user's cache directory. The version is that of the modules in hack/PART/go.mod, joined by "-".
func CacheDir(ctx context.Context, part string, modules ...string) (string, error) {
	cache := os.Getenv(envCache)
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the user's cache directory: %w", err)
		}
		cache = filepath.Join(user, "archelon")
	}
	root, err := goList(ctx, "", "{{.Dir}}")
	if err != nil {
		return "", fmt.Errorf("finding the root of the module: %w", err)
	}
	versions, err := goList(ctx, filepath.Join(root, "hack", part), "{{.Version}}", modules...)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", strings.Join(modules, ", "), err)
	}
	version := strings.Join(strings.Fields(versions), "-")
	return filepath.Join(cache, part, version+"-"+runtime.GOOS+"-"+runtime.GOARCH), nil
}

// goList runs `go list -m` in dir, so that go.mod stays the only place that
// names a version.
func goList(ctx context.Context, dir, format string, modules ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-m", "-f", format}, modules...)...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go list -m %s: %w: %s", strings.Join(modules, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
