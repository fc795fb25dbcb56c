package metal3

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/stage"
)

// CRDs returns those of the operator that hack/metal3 pins, and in the place of its
// HostClaim and HostDeployPolicy ours.
func CRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/metal3-io/baremetal-operator")
	command.Dir = filepath.Join(stage.Root(), "hack", "metal3")
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("finding the baremetal-operator: %w", err)
	}
	var module struct{ Dir string }
	if err := yaml.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("reading where the baremetal-operator is: %w", err)
	}
	theirs, err := filepath.Glob(filepath.Join(module.Dir, "config", "base", "crds", "bases", "metal3.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	ours, err := filepath.Glob(filepath.Join(stage.Root(), "charts", "archelon", "files", "crds", "metal3.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, path := range append(theirs, ours...) {
		paths[filepath.Base(path)] = path
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(paths))
	for _, path := range paths {
		crd, err := read(path)
		if err != nil {
			return nil, err
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

func read(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a CRD: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", filepath.Base(path), err)
	}
	return crd, nil
}
