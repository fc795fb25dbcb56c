package docs_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
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
		const operations = "https://github.com/archelon-io/archelon/blob/main/docs/operations/"
		if want := operations + runbookOf(t, rule); rule.Annotations["runbook_url"] != want {
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

// sharedRunbooks are alerts with the same steps as another one, which has the page.
func sharedRunbooks() map[string]string {
	return map[string]string{"ArchelonManyClustersDisconnected": "ArchelonClusterDisconnected"}
}

// runbookOf returns the page of an alert, or its section of the page on alerts. A runbook says what the rule says.
func runbookOf(t *testing.T, rule alert) string {
	t.Helper()
	name := cmp.Or(sharedRunbooks()[rule.Alert], rule.Alert)
	page := "runbooks/" + strings.ToLower(name) + ".md"
	content, err := os.ReadFile(filepath.Join("operations", filepath.FromSlash(page)))
	if errors.Is(err, fs.ErrNotExist) {
		return "alerts.md#" + strings.ToLower(rule.Alert)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, part := range []string{
		"# " + name + "\n", "`" + rule.Alert + "`", rule.Labels["severity"],
		"\n| effect |", "\n| Archelon already tried |", "| you see | then |", "escalate",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q", page, part)
		}
	}
	if fires := "for " + strings.NewReplacer("m", " minutes", "h", " hour").Replace(rule.For); !strings.Contains(text, fires) {
		t.Errorf("%s does not say that %s fires when that has lasted %q", page, rule.Alert, fires)
	}
	return page
}

// The alert of a tenant's cause has the tenant's namespace. What is wrong with Rancher has not, so the reasons of
// Rancher on the page of conditions are those that the rule adds up over all namespaces.
func TestAlertsOfTenants(t *testing.T) {
	var named, summed []string
	for _, rule := range alerts(t) {
		const ofTenant = "{{ or $labels.cluster_namespace $labels.namespace }}"
		if strings.Contains(rule.Expr, "cluster_namespace") != (rule.Labels["namespace"] == ofTenant) {
			t.Errorf("label namespace of %s is %q, which does not fit its expression", rule.Alert, rule.Labels["namespace"])
		}
		if rule.Alert != "ArchelonImportNeedsAttention" {
			continue
		}
		for _, match := range selector.FindAllStringSubmatch(rule.Expr, -1) {
			if strings.Contains(match[2], "reason!") {
				named = namedReasons(match[2])
			} else {
				summed = namedReasons(match[2])
			}
		}
	}
	want := []string{"TurtlesActive", "InternalError"}
	for _, row := range tables(t, conditionsPage, "### Rancher") {
		want = append(want, row.code(0)...)
	}
	if diff := gocmp.Diff(want, summed); diff != "" {
		t.Errorf("what is no tenant's cause (-page of conditions +rule):\n%s", diff)
	}
	for _, reason := range summed {
		if !slices.Contains(named, reason) {
			t.Errorf("%s has both an alert with namespaces and one without", reason)
		}
	}
}

var selector = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)

// The page on metrics says which alerts use a metric, the page on alerts which reasons an alert
// counts, and the rules decide.
func TestMetricsAndAlertsAgree(t *testing.T) {
	page := filepath.Join("operations", "alerts.md")
	content, users := read(t, page), map[string]string{}
	for metric := range alertsOfMetrics(t) {
		users[metric] = ""
	}
	for _, rule := range alerts(t) {
		_, section, _ := strings.Cut(content, "\n## "+rule.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, match := range selector.FindAllStringSubmatch(rule.Expr, -1) {
			if !slices.Contains(strings.Fields(users[match[1]]), rule.Alert) {
				users[match[1]] = strings.TrimSpace(users[match[1]] + " " + rule.Alert)
			}
			for _, reason := range namedReasons(match[2]) {
				if counted := !strings.Contains(match[2], "reason!"); counted && !strings.Contains(section, "`"+reason+"`") {
					t.Errorf("%s: the section of %s does not name the reason %s that it counts", page, rule.Alert, reason)
				}
			}
		}
	}
	compare(t, filepath.Join("operations", "metrics.md"), users, alertsOfMetrics(t))
	for _, name := range regexp.MustCompile("`(archelon_[a-z_]+)`").FindAllStringSubmatch(content, -1) {
		if _, ok := users[name[1]]; !ok {
			t.Errorf("%s names the metric %s, which nobody publishes", page, name[1])
		}
	}
}

// alertsOfMetrics returns the alerts that the page on metrics names for each metric, ours and those of libraries.
func alertsOfMetrics(t *testing.T) map[string]string {
	t.Helper()
	page, found := filepath.Join("operations", "metrics.md"), map[string]string{}
	for heading, column := range map[string]int{"## Metrics": 3, "## Metrics of libraries": 3} {
		for _, row := range tables(t, page, heading) {
			found[row.code(0)[0]] = ""
			if column < len(row) {
				found[row.code(0)[0]] = strings.Join(row.code(column), " ")
			}
		}
	}
	return found
}

// A rule with a metric or a reason that does not exist never fires, and nothing says so.
func TestAlertsAndDashboardNameWhatExists(t *testing.T) {
	metrics, reasons := knownMetrics(t), knownReasons(t)
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
	return slices.Collect(maps.Keys(alertsOfMetrics(t)))
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
