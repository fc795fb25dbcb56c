package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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

// CAPOCICRDs returns CRDs of Cluster API Provider for OCI in the same way: those that an OCI identity is about, or those that are named.
func CAPOCICRDs(names ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if len(names) == 0 {
		names = []string{"ociclusters", "ocimanagedclusters", "ociclusteridentities"}
	}
	return readCRDs("github.com/oracle/cluster-api-provider-oci", filepath.Join("config", "crd", "bases", "infrastructure.cluster.x-k8s.io_"), names)
}

// readCRDs reads CRDs from files of a module, whose paths have a prefix in common.
func readCRDs(from, prefix string, names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	module, err := goList(context.Background(), "", "{{.Dir}}", from)
	if err != nil {
		return nil, fmt.Errorf("finding the module %s: %w", from, err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(module, prefix+name+".yaml"))
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
