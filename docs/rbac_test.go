package docs_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestRBAC(t *testing.T) {
	page := filepath.Join("operations", "rbac.md")
	for file, heading := range map[string]string{
		"role.yaml":                 "## ClusterRole archelon-manager",
		"leader_election_role.yaml": "## Role archelon-leader-election",
	} {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "config", "rbac", file))), &role); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		code := map[string]string{}
		for _, rule := range role.Rules {
			rejectWildcards(t, file, rule)
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					code[ruleKey(group, resource, rule.ResourceNames)] = verbs(rule.Verbs)
				}
			}
		}
		documented := map[string]string{}
		for _, row := range tables(t, page, heading) {
			for _, resource := range row.code(0) {
				documented[resource] = verbs(row.code(1))
			}
		}
		compare(t, page, code, documented)
	}
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
