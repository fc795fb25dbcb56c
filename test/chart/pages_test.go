package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"
)

// Values that pages show are values of the chart, and are taken. A block with other keys is a manifest,
// or values of another chart.
func TestValuesInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := readSchema(t).Properties
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(content, -1) {
			v := values{}
			if sigsyaml.Unmarshal(block[1], &v) != nil || !anyKey(v, known) {
				continue
			}
			found++
			if _, err := template(t.Context(), release{"archelon", "archelon-system"}, v); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page shows values, or none is found")
	}
}

// anyKey reports whether one of the values is known: others beside it then are mistakes.
func anyKey(v values, known map[string]*schema) bool {
	for key := range v {
		if known[key] != nil {
			return true
		}
	}
	return false
}

// What pages call by its name has that name, for the release that they install.
func TestAdmissionPolicyInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy := byName(objects(t, release{"archelon", "archelon-system"}, nil))["ValidatingAdmissionPolicy archelon-system.archelon-admission"]
	if policy == nil {
		t.Fatal("the chart has no such policy")
	}
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?:kubectl delete validatingadmissionpolicy |with binding '|ValidatingAdmissionPolicy ')([a-z0-9.-]+)`).FindAllSubmatch(content, -1) {
			found++
			if string(match[1]) != policy.GetName() {
				t.Errorf("%s speaks of ValidatingAdmissionPolicy %s, and the chart has %s", page, match[1], policy.GetName())
			}
		}
	}
	if found != 3 {
		t.Errorf("the name is in %d places, want 3", found)
	}
}

// What Helm says when an uninstallation fails, and what is then to be asked for, has the name of the Job.
func TestUninstallJobInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	job, found := uninstallJob(t, nil).Name, 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("(?:job-name=|`job |Job `)([a-z0-9-]+-uninstall-[a-z0-9-]+)").FindAllSubmatch(content, -1) {
			found++
			if string(match[1]) != job {
				t.Errorf("%s speaks of Job %s, and the chart has %s", page, match[1], job)
			}
		}
	}
	if found != 3 {
		t.Errorf("the name is in %d places, want 3", found)
	}
}
