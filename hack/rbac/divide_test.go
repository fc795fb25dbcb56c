package main

import (
	"slices"
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

// complete returns a rule for every place but those left out.
func complete(without ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for key := range places() {
		if slices.Contains(without, key) {
			continue
		}
		resource, group, _ := strings.Cut(key, ".")
		rules = append(rules, rule(group, resource, "get"))
	}
	return rules
}

func TestDivide(t *testing.T) {
	rules := append(complete("secrets", "clusters.management.cattle.io", "clusters.provisioning.cattle.io"),
		rule("", "secrets", "get", "list", "watch"),
		rbacv1.PolicyRule{APIGroups: []string{"management.cattle.io", "provisioning.cattle.io"}, Resources: []string{"clusters"}, Verbs: []string{"patch"}})
	inNamespaces, clusterWide, err := divide(rules)
	if err != nil {
		t.Fatal(err)
	}
	narrow := texts(inNamespaces)
	slices.Sort(narrow)
	want := []string{
		"get clusters.cluster.x-k8s.io", "get clusters/status.cluster.x-k8s.io", "get events.events.k8s.io",
		"get,list,watch secrets.", "patch clusters.provisioning.cattle.io", "patch rolebindings.rbac.authorization.k8s.io[archelon-isolated]",
	}
	if diff := cmp.Diff(want, narrow); diff != "" {
		t.Errorf("in namespaces (-want +got):\n%s", diff)
	}
	wide := texts(clusterWide)
	for _, right := range []string{"get,list,watch secrets.[crt-token-default-token,crt-token-system]", "patch clusters.management.cattle.io", "get,get namespaces."} {
		if !slices.Contains(wide, right) {
			t.Errorf("%q is not granted in the whole cluster: %q", right, wide)
		}
	}
	for _, right := range wide {
		if strings.Contains(right, "cluster.x-k8s.io") || strings.Contains(right, "provisioning") || right == "get,list,watch secrets." {
			t.Errorf("%q is granted in the whole cluster", right)
		}
	}
}

func TestDivideRefusesWhatItDoesNotKnow(t *testing.T) {
	named := rule("", "secrets", "get")
	named.ResourceNames = []string{"x"}
	for name, tc := range map[string]struct {
		rules []rbacv1.PolicyRule
		says  string
	}{
		"AnotherResource": {append(complete(), rule("", "configmaps", "get")), "configmaps"},
		"AnotherGroup":    {append(complete(), rule("example.com", "clusters", "get")), "clusters.example.com"},
		"Wildcard":        {append(complete(), rule("", "*", "get")), "*"},
		"NoResource":      {append(complete(), rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}), "/metrics"},
		"NamesTwice":      {append(complete(), named), "secrets is limited to names"},
		"StalePlace":      {complete("namespaces"), "a place for namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := divide(tc.rules); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want it to say %q", err, tc.says)
			}
		})
	}
}

func TestConditional(t *testing.T) {
	got := conditional([]rbacv1.PolicyRule{
		{APIGroups: []string{"management.cattle.io", "provisioning.cattle.io"}, Resources: []string{"clusters"}, Verbs: []string{"create", "get", "patch"}},
		rule("authentication.k8s.io", "tokenreviews", "create"),
		ownBindings("get"),
	})
	texts := make([]string, 0, len(got))
	for _, g := range got {
		texts = append(texts, string(g.When)+": "+strings.Join(g.Rule.Verbs, ",")+" "+keyOf(g.Rule))
	}
	want := []string{
		"v3: create clusters.management.cattle.io", ": get,patch clusters.management.cattle.io",
		"v1: create clusters.provisioning.cattle.io", ": get,patch clusters.provisioning.cattle.io",
		"metrics: create tokenreviews.authentication.k8s.io", ": get rolebindings.rbac.authorization.k8s.io",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
