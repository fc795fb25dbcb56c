package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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
	module, err := goList(context.Background(), "", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, fmt.Errorf("finding the cluster-api module: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(module, "core", "config", "crd", "bases", "cluster.x-k8s.io_"+name+".yaml"))
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
