package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// texts writes rules as "verbs resource.group[names]".
func texts(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		text := strings.Join(rule.Verbs, ",") + " " + strings.Join(rule.Resources, ",") + "." + strings.Join(rule.APIGroups, ",")
		if len(rule.ResourceNames) > 0 {
			text += "[" + strings.Join(rule.ResourceNames, ",") + "]"
		}
		all = append(all, text)
	}
	return all
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

func TestMerge(t *testing.T) {
	got, err := merge([]rbacv1.PolicyRule{
		rule("", "secrets", "get", "list"), named(rule("", "secrets", "get"), "b", "a"), named(rule("", "secrets", "patch"), "c"), rule("", "secrets", "watch", "get"),
		named(rule("", "pods", "get", "list"), "a", "b"), named(rule("", "pods", "get"), "b"), named(rule("", "pods", "watch"), "a"),
		{APIGroups: []string{"management.cattle.io", "cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"patch"}},
	})
	want := []string{"watch pods.[a]", "get,list pods.[a,b]", "get,list,watch secrets.", "patch secrets.[c]", "patch clusters.cluster.x-k8s.io", "patch clusters.management.cattle.io"}
	if diff := cmp.Diff(want, texts(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, refused := range []rbacv1.PolicyRule{
		rule("", "*", "get"), rule("", "secrets", "*"), rule("*", "secrets", "get"), {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	} {
		if _, err := merge([]rbacv1.PolicyRule{refused}); err == nil {
			t.Errorf("%v passes", refused)
		}
	}
}

func TestPackagesThatNobodyKnows(t *testing.T) {
	when := map[string]string{"import": "", "gone": "a-gate"}
	if _, err := known([]string{"import", "new"}, when); err == nil || !strings.Contains(err.Error(), "internal/new has markers") || !strings.Contains(err.Error(), "has internal/gone") {
		t.Errorf("got %v, want both named", err)
	}
}

func TestParse(t *testing.T) {
	p := pkg{}
	err := p.parse([]byte(`---
kind: ClusterRole
rules: [{apiGroups: [""], resources: [namespaces], verbs: [list]}]
---
kind: Role
metadata: {namespace: scope}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
`))
	if diff := cmp.Diff([][]string{{"list namespaces."}, {"get secrets."}}, [][]string{texts(p.cluster), texts(p.namespace)}); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	err = p.parse([]byte("kind: Role\nmetadata: {namespace: vaults}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\n"))
	if diff := cmp.Diff([]string{"get secrets."}, texts(p.named["vaults"])); diff != "" || err != nil || len(p.namespace) != 1 {
		t.Errorf("rules for named namespaces: %v, %v (-want +got):\n%s", err, p.namespace, diff)
	}
}

// Nobody gets what a gate that is off needs.
func TestGatedPermissionsAreApart(t *testing.T) {
	to := t.TempDir()
	err := write(to, []pkg{
		{name: "import", cluster: []rbacv1.PolicyRule{rule("", "namespaces", "list")}, namespace: []rbacv1.PolicyRule{rule("", "secrets", "get")}},
		{name: "import/v3", when: "managementv3-cluster", cluster: []rbacv1.PolicyRule{rule("management.cattle.io", "clusters", "create")}},
		{name: "rolekeeper", when: "isolated", cluster: []rbacv1.PolicyRule{rule("rbac.authorization.k8s.io", "rolebindings", "list")}},
		{
			name: "hostclaim", when: "hostclaim", namespace: []rbacv1.PolicyRule{rule("metal3.io", "hostclaims", "list")},
			named: map[string][]rbacv1.PolicyRule{"vaults": {rule("", "secrets", "get")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct{ has, lacks string }{
		"config/rbac/role.yaml":                            {"name: archelon-manager\nrules:\n- apiGroups:\n  - \"\"\n  resources:\n  - namespaces", "rolebindings hostclaims"},
		"config/isolated/cluster_role.yaml":                {"rolebindings", "hostclaims secrets"},
		"config/isolated/namespace_role.yaml":              {"secrets", "namespaces hostclaims"},
		"config/rbac/hostclaim_role.yaml":                  {"name: archelon-manager-hostclaim", "secrets"},
		"config/isolated/hostclaim_namespace_role.yaml":    {"hostclaims", "secrets"},
		"config/rbac/vaults_role.yaml":                     {"name: archelon-vaults\nrules:\n- apiGroups:\n  - \"\"\n  resources:\n  - secrets", "hostclaims"},
		"charts/archelon/files/permissions/hostclaim.yaml": {"named:\n  vaults:\n  - apiGroups:\n    - \"\"", "cluster:"},
		"charts/archelon/files/permissions/import-v3.yaml": {"when: managementv3-cluster", "namespace:"},
		"charts/archelon/files/permissions/import.yaml":    {"cluster:", "when:"},
	} {
		raw, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(raw)
		if strings.HasPrefix(text, "#") {
			_, text, _ = strings.Cut(text, "make generate.\n")
		}
		if !strings.Contains(text, want.has) {
			t.Errorf("%s lacks %q:\n%s", file, want.has, text)
		}
		for word := range strings.FieldsSeq(want.lacks) {
			if strings.Contains(text, word) {
				t.Errorf("%s has %q:\n%s", file, word, text)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(to, "config", "isolated", "hostclaim_cluster_role.yaml")); err == nil {
		t.Error("there is a role without rules")
	}
}
