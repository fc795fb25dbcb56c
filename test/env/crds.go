package env

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	// Its CRDs are in its module. Nothing else of it compiles with this controller-runtime.
	_ "github.com/oracle/cluster-api-provider-oci/version"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// CAPICRDs returns CRDs of Cluster API's core group cluster.x-k8s.io, read from
// the sigs.k8s.io/cluster-api module that go.mod pins. Without names it is
// clusters alone, which is all that Archelon watches; names are plurals, such as
// machines. Conversion webhooks are stripped because none runs, so versions other
// than the stored one are served without their fields being converted.
func CAPICRDs(names ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if len(names) == 0 {
		names = []string{"clusters"}
	}
	return readCRDs("sigs.k8s.io/cluster-api", filepath.Join("core", "config", "crd", "bases", "cluster.x-k8s.io_"), names)
}

// CAPOCICRDs returns CRDs of Cluster API Provider for OCI in the same way: those that an OCI identity is
// about, or those that are named.
func CAPOCICRDs(names ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if len(names) == 0 {
		names = []string{"ociclusters", "ocimanagedclusters", "ociclusteridentities"}
	}
	return readCRDs("github.com/oracle/cluster-api-provider-oci", filepath.Join("config", "crd", "bases", "infrastructure.cluster.x-k8s.io_"), names)
}

// HostClaimCRDs returns all that controllers of HostClaims need: CRDs of Metal3 from the baremetal-operator module
// that hack/metal3/go.mod pins, that of CAPI Clusters, and our own, as the chart has them.
func HostClaimCRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	root, err := goList(ctx, "", "{{.Dir}}", "github.com/archelon-io/archelon")
	if err != nil {
		return nil, fmt.Errorf("finding the root of the module: %w", err)
	}
	dir, err := Metal3CRDs(ctx)
	if err != nil {
		return nil, err
	}
	metal3 := filepath.Join(dir, "metal3.io_")
	crds, err := readFiles(metal3, []string{"baremetalhosts", "hardwaredata"})
	if err != nil {
		return nil, err
	}
	ours, err := readFiles(filepath.Join(root, "charts", "archelon", "files", "crds", "metal3.io_"), []string{"hostclaims", "hostdeploypolicies"})
	if err != nil {
		return nil, err
	}
	clusters, err := CAPICRDs()
	return slices.Concat(crds, ours, clusters), err
}

// Metal3CRDs returns the directory of the CRDs that Metal3 has released, in the module of the
// baremetal-operator that hack/metal3/go.mod pins.
func Metal3CRDs(ctx context.Context) (string, error) {
	root, err := goList(ctx, "", "{{.Dir}}", "github.com/archelon-io/archelon")
	if err != nil {
		return "", fmt.Errorf("finding the root of the module: %w", err)
	}
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/metal3-io/baremetal-operator")
	command.Dir = filepath.Join(root, "hack", "metal3")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("downloading the CRDs of Metal3: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("finding the CRDs of Metal3: %w", err)
	}
	return filepath.Join(module.Dir, "config", "base", "crds", "bases"), nil
}

// readCRDs reads CRDs from files of a module, whose paths have a prefix in common.
func readCRDs(from, prefix string, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	module, err := goList(context.Background(), "", "{{.Dir}}", from)
	if err != nil {
		return nil, fmt.Errorf("finding the module %s: %w", from, err)
	}
	return readFiles(filepath.Join(module, prefix), names)
}

func readFiles(prefix string, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		raw, err := os.ReadFile(prefix + name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("reading the CRD of %s: %w", name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, fmt.Errorf("parsing the CRD of %s: %w", name, err)
		}
		crd.Spec.Conversion = nil
		crds = append(crds, crd)
	}
	return crds, nil
}
