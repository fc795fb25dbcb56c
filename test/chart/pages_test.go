package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"
)

// Values that pages show are values of the chart, and are taken. A block with other keys is a manifest, or values of another chart.
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

// What pages say to delete by its name has that name, for the release that they install.
func TestWebhookConfigurationInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "operations", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, object := range objects(t, release{"archelon", "archelon-system"}, values{"webhook": values{"enabled": true, "failurePolicy": "Fail", "port": 10250}}) {
		if object.GetKind() == "ValidatingWebhookConfiguration" {
			want = object.GetName()
		}
	}
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`kubectl delete validatingwebhookconfiguration (\S+)`).FindAllSubmatch(content, -1) {
			found++
			if string(match[1]) != want {
				t.Errorf("%s deletes ValidatingWebhookConfiguration %s, and the chart has %s", page, match[1], want)
			}
		}
	}
	if found == 0 {
		t.Error("no page deletes one, or none is found")
	}
}
