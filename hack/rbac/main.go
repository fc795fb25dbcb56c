// Command rbac writes what the markers in the code ask for: for the chart a file for each package that has markers,
// and for installations without Helm the roles in config. controller-gen reads the markers of one package at a
// time, so that what one controller needs is not mixed with what another one needs. "namespace=scope" in a marker
// is for what is needed in the namespaces of an instance only, and any other name for namespaces that an
// administrator names for that purpose.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/archelon-io/archelon/internal/setup"
)

func main() {
	generator := flag.String("controller-gen", "controller-gen", "how to run controller-gen")
	to := flag.String("to", ".", "directory in which files are written as in the repository")
	flag.Parse()
	if err := run(context.Background(), strings.Fields(*generator), *to); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, generator []string, to string) error {
	names, err := marked("internal")
	if err != nil {
		return err
	}
	all, err := known(names, setup.Permissions())
	if err != nil {
		return err
	}
	for i := range all {
		if err := all[i].read(ctx, generator); err != nil {
			return fmt.Errorf("reading the markers of internal/%s: %w", all[i].name, err)
		}
	}
	return write(to, all)
}

// pkg is a package with markers.
type pkg struct {
	// name is its path below internal.
	name string
	// when is what its permissions are needed for.
	when string
	// cluster and namespace are the rules for the whole cluster and for each namespace of the scope.
	cluster, namespace []rbacv1.PolicyRule
	// named are the rules for namespaces that an administrator names, by what they are named for.
	named map[string][]rbacv1.PolicyRule
}

// marked returns the packages below a directory that have markers.
func marked(dir string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("// +kubebuilder:rbac:")) {
			name, _ := filepath.Rel(dir, filepath.Dir(path))
			found[filepath.ToSlash(name)] = true
		}
		return err
	})
	return slices.Sorted(maps.Keys(found)), err
}

// known says of packages when their permissions are needed. What nobody says that of is refused: to grant it always
// would undo the gates unseen.
func known(names []string, when map[string]string) ([]pkg, error) {
	var all []pkg
	var errs []error
	for _, name := range names {
		need, ok := when[name]
		if !ok {
			errs = append(errs, fmt.Errorf("internal/%s has markers, and setup.Permissions does not say when they are needed", name))
		}
		all = append(all, pkg{name: name, when: need})
	}
	for _, name := range slices.Sorted(maps.Keys(when)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("setup.Permissions has internal/%s, which has no markers", name))
		}
	}
	return all, errors.Join(errs...)
}

// read has controller-gen read the markers of a package.
func (p *pkg) read(ctx context.Context, generator []string) error {
	args := append(slices.Clone(generator[1:]), "rbac:roleName=archelon", "paths=./internal/"+p.name, "output:rbac:stdout")
	cmd := exec.CommandContext(ctx, generator[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return p.parse(out)
}

// parse reads the roles that controller-gen has made.
func (p *pkg) parse(roles []byte) error {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(roles), 4096)
	for {
		role := rbacv1.ClusterRole{} // a Role has the same rules
		err := decoder.Decode(&role)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(role.Rules) == 0:
		case role.Kind == "ClusterRole":
			p.cluster = append(p.cluster, role.Rules...)
		case role.Namespace == "scope":
			p.namespace = append(p.namespace, role.Rules...)
		default:
			if p.named == nil {
				p.named = map[string][]rbacv1.PolicyRule{}
			}
			p.named[role.Namespace] = append(p.named[role.Namespace], role.Rules...)
		}
	}
}
