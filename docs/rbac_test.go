package docs_test

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestRBAC(t *testing.T) {
	page := filepath.Join("operations", "rbac.md")
	headings := map[string]string{
		"rbac/ClusterRole archelon-manager":                "## ClusterRole archelon-manager",
		"rbac/Role archelon-leader-election":               "## Role archelon-leader-election",
		"isolated/ClusterRole archelon-isolated-namespace": "### In each of its namespaces: ClusterRole archelon-isolated-namespace",
		"isolated/ClusterRole archelon-isolated":           "### In the whole cluster: ClusterRole archelon-isolated",
		"isolated/Role archelon1-leader-election":          "### In the coordination namespace: Role archelon1-leader-election",
	}
	for role, rules := range roles(t) {
		heading, ok := headings[role]
		part := false
		if !ok { // It is for a gate.
			_, name, _ := strings.Cut(role, "/")
			name, part = ofFeature(name)
			heading = "### " + name
		}
		delete(headings, role)
		code, documented := permissions(t, role, rules, !ok), map[string]string{}
		for _, row := range tables(t, page, heading) {
			for _, resource := range row.code(0) {
				if _, ok := code[resource]; ok || !part {
					documented[resource] = verbs(row.code(1))
				}
			}
		}
		compare(t, page+" "+heading, code, documented)
	}
	for role := range headings {
		t.Errorf("there is no config/%s", role)
	}
}

// permissions returns what a role allows, by resource; for a feature without what the page names once for all of them.
func permissions(t *testing.T, role string, rules []rbacv1.PolicyRule, gated bool) map[string]string {
	t.Helper()
	allowed := map[string]string{}
	for _, rule := range rules {
		rejectWildcards(t, role, rule)
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := ruleKey(group, resource, rule.ResourceNames)
				if !gated || !ofEveryFeature(key, verbs(rule.Verbs)) {
					allowed[key] = verbs(rule.Verbs)
				}
			}
		}
	}
	return allowed
}

// ofFeature returns the role of a feature whose table a role is in, and whether the role has a part of it: an isolated
// instance has the same as a central one, some in the whole cluster and all else in each of its namespaces.
func ofFeature(role string) (table string, part bool) {
	for _, prefix := range []string{"ClusterRole archelon-isolated-namespace-", "ClusterRole archelon-isolated-"} {
		if feature, ok := strings.CutPrefix(role, prefix); ok {
			return "ClusterRole archelon-manager-" + feature, true
		}
	}
	return role, false
}

// ofEveryFeature reports whether the page names a permission once for all features: Events, and CRDs by name.
func ofEveryFeature(resource, verbs string) bool {
	return resource == "events.events.k8s.io" && verbs == "create patch" ||
		strings.HasPrefix(resource, "customresourcedefinitions.apiextensions.k8s.io[") && verbs == "list watch"
}

// roles returns the rules of all roles in config, by directory, kind and name.
func roles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]rbacv1.PolicyRule{}
	for _, file := range files {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(read(t, file)), 4096)
		for {
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("reading %s: %v", file, err)
			}
			if len(role.Rules) > 0 {
				found[filepath.Base(filepath.Dir(file))+"/"+role.Kind+" "+role.Name] = role.Rules
			}
		}
	}
	return found
}

func rejectWildcards(t *testing.T, file string, rule rbacv1.PolicyRule) {
	t.Helper()
	for _, entry := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs) {
		if strings.Contains(entry, "*") {
			t.Errorf("%s: %q is a wildcard", file, entry)
		}
	}
}

// ruleKey is "resource.group", with the names that the rule is limited to in brackets.
func ruleKey(group, resource string, names []string) string {
	key := resource
	if group != "" {
		key += "." + group
	}
	if len(names) > 0 {
		key += "[" + strings.Join(names, ",") + "]"
	}
	return key
}

func verbs(list []string) string {
	return strings.Join(slices.Sorted(slices.Values(list)), " ")
}
