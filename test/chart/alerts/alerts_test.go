// Package alerts_test checks with promtool that the alerts of the chart fire when they have to and not otherwise. It is
// a part of `make lint`: promtool takes minutes to compile, and nothing of the manager runs here.
package alerts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/helm"
)

// chart is the chart, seen from this package.
var chart = filepath.Join("..", "..", "..", "charts", "archelon")

// The rules are checked as the chart renders them for three releases, because alerts of one must not depend on
// metrics of another one.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	scenarios, raw := copied(t, dir, "alerts.yaml")
	files := []string{filepath.Join(chart, "files", "alerts.yaml")}
	for file, r := range map[string]helm.Release{
		"blue.yaml": {Name: "archelon", Namespace: "blue"}, "green.yaml": {Name: "archelon", Namespace: "green"},
		"second.yaml": {Name: "second", Namespace: "blue"},
	} {
		r.ValuesYAML = "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}"
		rules := rulesOf(t, r)
		for line := range strings.Lines(string(rules)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok && !strings.Contains(raw, "- alertname: "+name+"\n") {
				t.Errorf("there is no scenario in which %s fires", name)
			}
		}
		write(t, filepath.Join(dir, file), rules)
		files = append(files, filepath.Join(dir, file))
	}
	promtool(t, append([]string{"check", "rules", "--lint-fatal"}, files...)...)
	promtool(t, "test", "rules", scenarios)
}

// A scrape configuration other than the ServiceMonitor gives metrics another job label. No alert may read that as a
// manager that is down.
func TestAlertsOfAnotherJob(t *testing.T) {
	dir := t.TempDir()
	scenarios, _ := copied(t, dir, "job.yaml")
	write(t, filepath.Join(dir, "rules.yaml"), rulesOf(t, helm.Release{
		Name: "archelon", Namespace: "blue", ValuesYAML: "metrics: {prometheusRule: {enabled: true, job: kubernetes-pods}}",
	}))
	promtool(t, "test", "rules", scenarios)
}

// promtool runs the program that the environment variable PROMTOOL names.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := os.Getenv("PROMTOOL")
	if program == "" {
		t.Fatal("PROMTOOL does not name promtool: run `make test-alerts`, which builds it")
	}
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", args[0], err, out)
	}
}

// copied copies a file of scenarios, which name files of rules beside them.
func copied(t *testing.T, dir, name string) (path, content string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, name)
	write(t, path, raw)
	return path, string(raw)
}

// rulesOf returns what is in the PrometheusRule of a release, as Prometheus reads it.
func rulesOf(t *testing.T, release helm.Release) []byte {
	t.Helper()
	h, err := helm.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	release.Chart = chart
	release.Args = []string{"--set=uninstall.offline=true", "--kube-version=1.36.3"}
	objects, err := h.Template(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		if objects[i].GetKind() == "PrometheusRule" {
			rules, err := yaml.Marshal(objects[i].Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			return rules
		}
	}
	t.Fatalf("release %s has no PrometheusRule", release.Name)
	return nil
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
