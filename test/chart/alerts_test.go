package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Prometheus itself says whether the rules, as the chart renders them for three releases, fire when
// they have to and otherwise not.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	scenarios := filepath.Join(dir, "alerts.yaml")
	write(t, scenarios, raw)
	files := []string{filepath.Join(chart, "files", "alerts.yaml")}
	for file, r := range map[string]release{"blue.yaml": {"archelon", "blue"}, "green.yaml": {"archelon", "green"}, "second.yaml": {"second", "blue"}} {
		rules := rulesOf(t, r, nil)
		for line := range strings.Lines(string(rules)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok && !strings.Contains(string(raw), "- alertname: "+name+"\n") {
				t.Errorf("there is no scenario in which %s fires", name)
			}
		}
		write(t, filepath.Join(dir, file), rules)
		files = append(files, filepath.Join(dir, file))
	}
	if _, err := run(t.Context(), ".", nil, programs["promtool"], append([]string{"check", "rules", "--lint-fatal"}, files...)...); err != nil {
		t.Error(err)
	}
	if _, err := run(t.Context(), ".", nil, programs["promtool"], "test", "rules", scenarios); err != nil {
		t.Error(err)
	}
}

// Where something else than the ServiceMonitor brings the metrics they have another job, and nobody is down.
func TestAlertsOfAnotherJob(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("testdata", "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "job.yaml"), raw)
	own := values{"metrics": values{"serviceMonitor": values{"enabled": false}, "prometheusRule": values{"job": "kubernetes-pods"}}}
	write(t, filepath.Join(dir, "rules.yaml"), rulesOf(t, release{"archelon", "blue"}, own))
	if _, err := run(t.Context(), ".", nil, programs["promtool"], "test", "rules", filepath.Join(dir, "job.yaml")); err != nil {
		t.Error(err)
	}
}

// rulesOf returns what is in the PrometheusRule of a release, as Prometheus reads it.
func rulesOf(t *testing.T, r release, set values) []byte {
	t.Helper()
	on := values{"metrics": values{"serviceMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}}}
	for _, object := range objects(t, r, on.merged(set)) {
		if object.GetKind() == "PrometheusRule" {
			rules, err := yaml.Marshal(object.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			return rules
		}
	}
	t.Fatalf("release %s has no PrometheusRule", r.name)
	return nil
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
