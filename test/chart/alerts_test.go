package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Prometheus itself says whether the rules, as the chart renders them for three releases, fire when they have to and otherwise not.
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
		found := false
		for _, object := range objects(t, r, values{"metrics": values{"prometheusRule": values{"enabled": true}}}) {
			if object.GetKind() != "PrometheusRule" {
				continue
			}
			found = true
			rules, err := yaml.Marshal(object.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, file), rules)
			files = append(files, filepath.Join(dir, file))
			for alert := range strings.Lines(string(rules)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(alert), "- alert: "); ok && !strings.Contains(string(raw), "- alertname: "+name+"\n") {
					t.Errorf("there is no scenario in which %s fires", name)
				}
			}
		}
		if !found {
			t.Fatalf("release %s has no PrometheusRule", r.name)
		}
	}
	if _, err := run(t.Context(), ".", nil, programs["promtool"], append([]string{"check", "rules", "--lint-fatal"}, files...)...); err != nil {
		t.Error(err)
	}
	if _, err := run(t.Context(), ".", nil, programs["promtool"], "test", "rules", scenarios); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
