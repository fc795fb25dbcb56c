package docs_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alert is a rule in the file that the chart installs.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(root, "charts", "archelon", "files", "alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

func TestAlerts(t *testing.T) {
	page := filepath.Join("operations", "alerts.md")
	content := read(t, page)
	code := map[string]string{}
	for _, rule := range alerts(t) {
		code[rule.Alert] = rule.Labels["severity"] + " after " + rule.For
		anchor := strings.ToLower(rule.Alert)
		if want := "https://github.com/archelon-io/archelon/blob/main/docs/operations/alerts.md#" + anchor; rule.Annotations["runbook_url"] != want {
			t.Errorf("the runbook of %s is %s, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s needs a severity, a summary and a description", rule.Alert)
		}
		if !strings.Contains(rule.Expr, `job="JOB",namespace="NAMESPACE"`) {
			t.Errorf("%s is not limited to the job and the namespace of its release", rule.Alert)
		}
		_, section, _ := strings.Cut(content, "\n## "+rule.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Meaning.** ", "**Look at.** ", "**Remedy.** "} {
			if !strings.Contains(section, "\n"+part) {
				t.Errorf("%s: the section of %s lacks %q", page, rule.Alert, part)
			}
		}
	}
	documented := map[string]string{}
	for _, row := range tables(t, page, "# Alerts") {
		documented[row.code(0)[0]] = row[1] + " after " + row[2]
	}
	compare(t, page, code, documented)
	for _, match := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(content, -1) {
		if _, ok := code[match[1]]; !ok {
			t.Errorf("%s has a section on %s, which is no alert", page, match[1])
		}
	}
}

// foreignMetrics are those of Prometheus itself, controller-runtime, client-go and client_golang that alerts and the dashboard use.
var foreignMetrics = []string{
	"up",
	"controller_runtime_reconcile_errors_total",
	"controller_runtime_reconcile_total",
	"controller_runtime_webhook_latency_seconds",
	"controller_runtime_webhook_requests_total",
	"leader_election_master_status",
	"process_cpu_seconds_total",
	"process_resident_memory_bytes",
	"rest_client_requests_total",
	"workqueue_depth",
}

// A rule with a metric or a reason that does not exist never fires, and nothing says so.
func TestAlertsAndDashboardNameWhatExists(t *testing.T) {
	metrics, reasons := knownMetrics(t), knownReasons(t)
	selector := regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	for where, expression := range expressions(t) {
		found := selector.FindAllStringSubmatch(expression, -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric in %s", where, expression)
		}
		for _, match := range found {
			if !slices.Contains(metrics, match[1]) && !slices.Contains(metrics, suffix.ReplaceAllString(match[1], "")) {
				t.Errorf("%s names the metric %s, which nobody publishes", where, match[1])
			}
			for _, name := range namedReasons(match[2]) {
				if !slices.Contains(reasons, name) {
					t.Errorf("%s names the reason %s, which does not exist", where, name)
				}
			}
		}
	}
}

func knownMetrics(t *testing.T) []string {
	t.Helper()
	names := slices.Clone(foreignMetrics)
	for _, row := range tables(t, filepath.Join("operations", "metrics.md"), "## Metrics") {
		name := row.code(0)[0]
		names = append(names, name)
	}
	return names
}

func knownReasons(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, row := range tables(t, conditionsPage, "## Reasons") {
		names = append(names, row.code(0)...)
	}
	return names
}

// namedReasons returns the reasons in the matchers of a selector.
func namedReasons(matchers string) []string {
	match := regexp.MustCompile(`reason!?[=~]+"([^"]*)"`).FindStringSubmatch(matchers)
	if match == nil {
		return nil
	}
	return strings.Split(match[1], "|")
}

// expressions returns the queries of alerts and dashboard, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, rule := range alerts(t) {
		found[rule.Alert] = rule.Expr
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr  string `json:"expr"`
				RefID string `json:"refId"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(root, "charts", "archelon", "files", "dashboard.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			found["panel "+panel.Title+" "+target.RefID] = target.Expr
			for _, label := range []string{`namespace="$namespace"`, `job="$job"`} {
				if !strings.Contains(target.Expr, label) {
					t.Errorf("panel %s is not limited by %s", panel.Title, label)
				}
			}
		}
	}
	if len(dashboard.Panels) == 0 || len(dashboard.Templating.List) == 0 {
		t.Error("the dashboard has no panels or no variables")
	}
	return found
}
