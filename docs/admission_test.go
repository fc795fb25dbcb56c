package docs_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page says of each key what the policy refuses, and shows the policy's own words.
func TestAdmissionPolicy(t *testing.T) {
	page := filepath.Join("operations", "admission.md")
	policy := read(t, filepath.Join(root, "charts", "archelon", "files", "admission.yaml"))
	code := map[string]string{"63": ""} // The limit of a name, which has no key.
	for _, match := range regexp.MustCompile(`\b(?:archelon|cluster-api\.cattle)\.io/[a-z-]+`).FindAllString(policy, -1) {
		code[match] = ""
	}
	reasons := slices.Collect(maps.Values(constants(parse(t, "api/v1alpha1"), "Reason")))
	documented := map[string]string{}
	for _, row := range tables(t, page, "## What it refuses") {
		keys := row.code(0)
		if len(keys) == 0 {
			keys = []string{regexp.MustCompile(`\d+`).FindString(row[0])}
		}
		for _, key := range keys {
			documented[key] = ""
		}
		if reason := row.code(2)[0]; !slices.Contains(reasons, reason) {
			t.Errorf("%s: there is no reason %s", keys, reason)
		}
	}
	compare(t, page, code, documented)
	for _, limit := range []string{"8 KiB", "63"} {
		if !strings.Contains(read(t, page), limit) || !strings.Contains(policy, limit) {
			t.Errorf("%s is not in both", limit)
		}
	}
	_, said, _ := strings.Cut(read(t, page), "denied request: metadata.labels[cluster-api.cattle.io/rancher-auto-import]: ")
	said, _, _ = strings.Cut(said, "\n")
	if said == "" || !strings.Contains(policy, "'"+said+"'") {
		t.Errorf("%s shows %q, which the policy does not say", page, said)
	}
}
