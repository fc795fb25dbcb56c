// Package chart_test checks the Helm chart: what its schema lets pass, what it renders for every combination of its
// features, and what its unit tests say. It needs helm, helm-unittest and kubeconform, which `make helm` builds, and no
// cluster.
package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/helm"
)

// kubeVersion is that of the cluster which helm has to believe in.
const kubeVersion = "1.36.3"

// root is the root of the repository, seen from this package, and chart is the chart.
var (
	root  = filepath.Join("..", "..")
	chart = filepath.Join(root, "charts", "archelon")
)

// programs are the paths of the tools, by name.
var programs = map[string]string{}

func TestMain(m *testing.M) {
	for _, name := range []string{"helm", "helm-unittest", "kubeconform"} {
		find := func() (string, error) { return helm.Tool(name) }
		if name == "helm" {
			find = helm.Program
		}
		path, err := find()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		programs[name] = path
	}
	os.Exit(m.Run())
}

// run returns what a program prints. If it fails, the error has what it complains about.
func run(ctx context.Context, dir string, input []byte, program string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, program, args...)
	var out, complaints bytes.Buffer
	// They are over before garbage matters; helm takes a quarter less time without collecting it.
	command.Env = append(os.Environ(), "GOGC=off")
	command.Dir, command.Stdin, command.Stdout, command.Stderr = dir, bytes.NewReader(input), &out, &complaints
	if err := command.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w\n%s%s", filepath.Base(program), err, complaints.Bytes(), out.Bytes())
	}
	return out.Bytes(), nil
}

// release is what a chart is rendered for.
type release struct{ name, namespace string }

// values are what is set.
type values map[string]any

// merged returns both, down to the leaves. The other one wins.
func (v values) merged(other values) values {
	result := values{}
	maps.Copy(result, v)
	for key, value := range other {
		if below, ok := value.(values); ok {
			if own, ok := result[key].(values); ok {
				value = own.merged(below)
			}
		}
		result[key] = value
	}
	return result
}

// template renders the chart as "helm template" does, with the hook that it would leave out without a cluster.
func template(ctx context.Context, r release, v values) ([]byte, error) {
	return templateOf(ctx, chart, r, v)
}

// templateOf renders a chart that takes the same values.
func templateOf(ctx context.Context, chart string, r release, v values) ([]byte, error) {
	set, err := yaml.Marshal(values{"uninstall": values{"offline": true}}.merged(v))
	if err != nil {
		return nil, err
	}
	return run(ctx, ".", set, programs["helm"], "template", r.name, chart, "--namespace="+r.namespace, "--kube-version="+kubeVersion, "--values=-")
}

// objects are what is rendered.
func objects(t *testing.T, r release, v values) []*unstructured.Unstructured {
	t.Helper()
	raw, err := template(t.Context(), r, v)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, raw)
}

func TestLint(t *testing.T) {
	if out, err := run(t.Context(), ".", nil, programs["helm"], "lint", "--strict", "--kube-version="+kubeVersion, chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The suites are in the tests folder of the chart.
func TestSuites(t *testing.T) {
	if out, err := run(t.Context(), ".", nil, programs["helm-unittest"], "--strict", chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
