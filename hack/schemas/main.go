// Command schemas writes JSON schemas for kubeconform, so that it checks manifests without a network: of Kubernetes'
// own kinds and of those of prometheus-operator. It reads what these projects publish in their Go modules.
//
// It prints the directory, and nothing else, on standard output. For kubeconform:
//
//	-strict -schema-location 'DIRECTORY/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'
//
// Run it in the directory of the module.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources are what there are schemas of. The modules are those that the tests' control plane is built
// from, and those in crds/go.mod.
func sources() []source {
	crds := filepath.Join("hack", "schemas", "crds", "go.mod")
	return []source{
		{modfile: filepath.Join("hack", "controlplane", "go.mod"), module: "k8s.io/kubernetes", files: "api/openapi-spec/swagger.json", convert: fromSwagger},
		{modfile: crds, module: "github.com/prometheus-operator/prometheus-operator", files: "example/prometheus-operator-crd/*.yaml", convert: fromCRD},
	}
}

func main() {
	dir, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// run returns the directory with the schemas, which it fills unless that was done before.
func run(ctx context.Context) (string, error) {
	key, err := ownDigest()
	if err != nil {
		return "", err
	}
	found := sources()
	for i := range found {
		if err := found[i].locate(ctx); err != nil {
			return "", err
		}
		key += "-" + found[i].version
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "schemas", key)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	set := schemas{}
	for _, source := range found {
		if err := source.read(set); err != nil {
			return "", fmt.Errorf("reading %s %s: %w", source.module, source.version, err)
		}
	}
	return target, set.writeTo(target)
}

// cacheDir is where hack/controlplane/build.sh keeps what it builds, too.
func cacheDir() (string, error) {
	if dir := os.Getenv("ARCHELON_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "archelon"), err
}

// ownDigest changes with this program, so that what an older one wrote is not used again.
func ownDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return strings.ToLower(hex.EncodeToString(sum[:6])), nil
}
