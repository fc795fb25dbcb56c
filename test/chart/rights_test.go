package chart_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/setup"
)

// permissions is what a file in files/permissions grants, and for what.
type permissions struct {
	When               string                         `json:"when"`
	Cluster, Namespace []rbacv1.PolicyRule            `json:",omitempty"`
	Named              map[string][]rbacv1.PolicyRule `json:"named"`
	// Rancher: they are needed in Rancher's cluster.
	Rancher bool `json:"rancher"`
}

// needed reports whether it is needed for what is on.
func (p permissions) needed(on []string) bool {
	enabled := func(gate string) bool {
		if gate == string(feature.ManagementV3Cluster) {
			return slices.Contains(on, "v3")
		}
		return slices.Contains(on, wordOf(gate))
	}
	off, inverted := strings.CutPrefix(p.When, "-")
	imports := !slices.Contains(on, "alone")
	switch {
	case p.Rancher && enabled(string(feature.RemoteRancher)):
		return false
	case p.When == "":
		return true
	case p.When == "import":
		return imports
	case p.When == "cluster-class-labels":
		return imports && (slices.Contains(on, "class_labels") || slices.Contains(on, "everything"))
	case p.When == "metrics" || p.When == "isolated":
		return slices.Contains(on, p.When)
	case inverted:
		return imports && !enabled(off)
	default:
		return enabled(p.When)
	}
}

// wordOf is how a gate stands in the name of a combination.
func wordOf(gate string) string { return strings.ReplaceAll(gate, "-", "_") }

func readPermissions(t *testing.T) []permissions {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chart, "files", "permissions", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, want files of permissions", files, err)
	}
	all := make([]permissions, len(files))
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(raw, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// roleOf reads what Role and ClusterRole have in common.
func roleOf(t *testing.T, object *unstructured.Unstructured) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
		t.Fatal(err)
	}
	return role
}

func checkWildcards(t *testing.T, rendered []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range rendered {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		role := roleOf(t, object)
		if len(role.Rules) == 0 || role.AggregationRule != nil {
			t.Errorf("%s has no rules, or gets them from elsewhere", id(object))
		}
		for _, rule := range role.Rules {
			for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs, rule.NonResourceURLs} {
				if strings.Contains(strings.Join(words, " "), "*") {
					t.Errorf("%s has a wildcard: %v", id(object), rule)
				}
			}
			if len(rule.Verbs) == 0 || len(rule.Resources)+len(rule.NonResourceURLs) == 0 {
				t.Errorf("%s has a rule without effect: %v", id(object), rule)
			}
		}
	}
}

// texts returns rules as "verb resource.group[name]", one for each of them, without duplicates.
func texts(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				all = append(all, verb+" "+url)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s.%s[%s]", verb, resource, group, name), "[]"))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// granted returns what the bindings give to a ServiceAccount, by namespace; in the whole cluster by the empty one.
func granted(t *testing.T, rendered []*unstructured.Unstructured, account string) map[string][]string {
	t.Helper()
	roles := map[string]*rbacv1.ClusterRole{}
	for _, object := range rendered {
		if strings.HasSuffix(object.GetKind(), "Role") {
			roles[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = roleOf(t, object)
		}
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range rendered {
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			continue
		}
		binding := &rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
			t.Fatal(err)
		}
		key := binding.RoleRef.Kind + " /" + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			key = "Role " + binding.Namespace + "/" + binding.RoleRef.Name
		}
		role, ok := roles[key]
		if !ok {
			t.Errorf("%s refers to %s, which does not exist", id(object), key)
			continue
		}
		for _, subject := range binding.Subjects {
			if subject.Kind == "ServiceAccount" && subject.Namespace == "archelon-system" && subject.Name == account {
				rules[binding.Namespace] = append(rules[binding.Namespace], role.Rules...)
			}
		}
	}
	found := map[string][]string{}
	for namespace, rules := range rules {
		found[namespace] = texts(rules)
	}
	return found
}

// checkRights compares what the manager may do with what is needed for what is on.
func checkRights(t *testing.T, rendered []*unstructured.Unstructured, all []permissions, on []string) {
	t.Helper()
	needed := func(part func(permissions) []rbacv1.PolicyRule, more ...rbacv1.PolicyRule) []string {
		rules := more
		for _, p := range all {
			if p.needed(on) {
				rules = append(rules, part(p)...)
			}
		}
		return texts(rules)
	}
	cluster := func(p permissions) []rbacv1.PolicyRule { return p.Cluster }
	namespace := func(p permissions) []rbacv1.PolicyRule { return p.Namespace }
	both := func(p permissions) []rbacv1.PolicyRule { return slices.Concat(p.Cluster, p.Namespace) }
	own := leases(on)
	want := map[string][]string{}
	if slices.Contains(on, "everything") { // It has its Lease elsewhere.
		want["coordination"], own = texts(own), nil
	}
	if len(own) > 0 {
		want["archelon-system"] = texts(own)
	}
	if slices.Contains(on, "isolated") {
		want[""] = needed(cluster)
		want["watch1"], want["watch2"] = needed(namespace), needed(namespace)
	} else {
		want[""] = needed(both)
	}
	if slices.Contains(on, "own") {
		want["archelon-system"] = needed(namespace, own...)
	}
	if slices.Contains(on, wordOf(string(feature.RemoteRancher))) {
		want["archelon-system"] = texts(append(own, rule("", "secrets", "rancher", "get", "list", "watch")))
	}
	if slices.Contains(on, wordOf(string(feature.OCICredentialTranslation))) {
		want["cattle-global-data"] = texts(named(all, "oci-credentials"))
		there := named(all, "oci-translated", "oci-secrets")
		if slices.Contains(on, "isolated") {
			want["watch2"] = needed(namespace, there...)
		} else {
			want["watch2"] = texts(there)
		}
	}
	got := granted(t, rendered, accountOf(on))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of the manager (-want +got):\n%s", diff)
	}
	checkConditional(t, got, on)
}

// leases returns the rules for the coordination namespace.
func leases(on []string) []rbacv1.PolicyRule {
	instance := "archelon"
	if slices.Contains(on, "everything") {
		instance = "archelon1"
	}
	names := []string{instance + "-leader-election"}
	if slices.Contains(on, wordOf(string(feature.RemoteRancher))) { // It remembers who had the seat in Rancher's cluster.
		names = append(names, instance+"-rancher")
	}
	rules := []rbacv1.PolicyRule{rule("coordination.k8s.io", "leases", "", "create", "list", "watch"), rule("", "events", "", "create")}
	for _, name := range names {
		rules = append(rules, rule("coordination.k8s.io", "leases", name, "get", "update"))
	}
	return rules
}

func rule(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	return rule
}

// named returns the rules for namespaces that values name for some purposes.
func named(all []permissions, purposes ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, p := range all {
		for _, purpose := range purposes {
			rules = append(rules, p.Named[purpose]...)
		}
	}
	return rules
}

// checkConditional names what matters most, whatever files/permissions say.
func checkConditional(t *testing.T, got map[string][]string, on []string) {
	t.Helper()
	anywhere := slices.Concat(got[""], got["watch1"])
	for right, need := range map[string]string{
		"create clusters.provisioning.cattle.io":           "v1",
		"create clusters.management.cattle.io":             "v3",
		"create tokenreviews.authentication.k8s.io":        "metrics",
		"create subjectaccessreviews.authorization.k8s.io": "metrics",
		"patch clusters.fleet.cattle.io":                   "class_labels everything",
		"list leases.coordination.k8s.io":                  "nothing",
		"watch leases.coordination.k8s.io":                 "nothing",
		"patch secrets.":                                   "host_claim agent_manifest", // copies beside hosts, manifests beside Clusters
		"create secrets.":                                  "host_claim agent_manifest",
	} {
		needed := slices.ContainsFunc(strings.Fields(need), func(word string) bool { return slices.Contains(on, word) })
		if strings.Contains(right, "fleet.cattle.io") {
			needed = needed && !slices.Contains(on, wordOf(string(feature.RemoteRancher)))
		}
		if has := slices.Contains(anywhere, right); has != needed {
			t.Errorf("%q is granted: %t", right, has)
		}
	}
	if slices.Contains(on, "alone") {
		checkAlone(t, anywhere)
	}
	if !slices.Contains(on, "isolated") {
		return
	}
	for _, right := range got[""] {
		for _, resource := range []string{" secrets.", " clusters.cluster.x-k8s.io", " clusters/status.cluster.x-k8s.io", " clusters.provisioning.cattle.io", " events."} {
			if strings.Contains(right, resource) && !strings.Contains(right, "[crt-token-") {
				t.Errorf("an isolated instance may %q in the whole cluster", right)
			}
		}
	}
}

// checkAlone wants no permission for the import. HostClaims need to read CAPI Clusters, which may be paused.
func checkAlone(t *testing.T, rights []string) {
	t.Helper()
	for _, right := range rights {
		verb, resource, _ := strings.Cut(right, " ")
		reads := slices.Contains([]string{"get", "list", "watch"}, verb)
		if strings.Contains(resource, "cattle.io") || strings.HasPrefix(resource, "clusters.cluster.x-k8s.io") && !reads {
			t.Errorf("without the import it may %q", right)
		}
	}
}

// API keys are read where an administrator says that they are, whatever else is granted, and
// nowhere without the feature.
func TestPrincipalSecretsAreReadWhereTheyAreNamed(t *testing.T) {
	identity := values{"secretNamespaces": []string{"vault", "keys"}, "trustedNamespaces": []string{"infra"}}
	on := values{"features": values{"oci-cluster-identity": values{"enabled": true}}, "identity": identity}
	translated := on.merged(values{
		"features": values{"oci-credential-translation": values{"enabled": true}},
		"identity": values{"credentials": values{"namespace": "keys", "allowedNamespaces": []string{"a"}}},
	})
	isolated := values{"namespaces": []string{"watch1"}}
	secrets := []string{"get secrets.", "list secrets.", "watch secrets."}
	shared := []string{"list ociclusteridentities.infrastructure.cluster.x-k8s.io", "watch ociclusteridentities.infrastructure.cluster.x-k8s.io"}
	for name, tc := range map[string]struct {
		set  values
		want map[string][]string
	}{
		"Off":     {values{"identity": identity}, map[string][]string{}},
		"Central": {on, map[string][]string{"vault": secrets, "keys": secrets}},
		"Translated": {translated, map[string][]string{
			"vault": secrets,
			"keys": {
				"create ociclusteridentities.infrastructure.cluster.x-k8s.io", "create secrets.",
				"delete ociclusteridentities.infrastructure.cluster.x-k8s.io", "delete secrets.",
				"get ociclusteridentities.infrastructure.cluster.x-k8s.io", "get secrets.", "list secrets.",
				"patch ociclusteridentities.infrastructure.cluster.x-k8s.io", "patch secrets.", "watch secrets.",
			},
			"cattle-global-data": {
				"create events.events.k8s.io", "get secrets.", "list secrets.", "patch events.events.k8s.io", "patch secrets.", "watch secrets.",
			},
		}},
		"Isolated": {on.merged(isolated), map[string][]string{"vault": secrets, "keys": secrets, "infra": shared}},
	} {
		t.Run(name, func(t *testing.T) {
			got := granted(t, objects(t, release{"archelon", "archelon-system"}, tc.set), "archelon")
			for _, right := range got[""] {
				if name == "Isolated" && strings.Contains(right, " secrets.") && !strings.Contains(right, "[crt-token-") {
					t.Errorf("it may %q in the whole cluster", right)
				}
			}
			maps.DeleteFunc(got, func(namespace string, _ []string) bool {
				return slices.Contains([]string{"", "archelon-system", "watch1"}, namespace)
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The uninstaller deletes records when it is told to, and never more than the manager could.
func TestRightsOfTheUninstaller(t *testing.T) {
	for name, set := range map[string]values{
		"Central":         {},
		"Isolated":        {"namespaces": []string{"watch1", "watch2"}},
		"CentralDeletes":  {"uninstall": values{"deleteRancherClusters": true}},
		"IsolatedDeletes": {"namespaces": []string{"watch1", "watch2"}, "uninstall": values{"deleteRancherClusters": true}},
		"LeaseElsewhere":  {"leaderElection": values{"namespace": "coordination"}},
		"Claims":          {"features": values{"host-claim": values{"enabled": true}}},
		"IsolatedClaims":  {"features": values{"host-claim": values{"enabled": true}}, "namespaces": []string{"watch1", "watch2"}},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := objects(t, release{"archelon", "archelon-system"}, set)
			uninstaller, manager := granted(t, rendered, "archelon.uninstall"), granted(t, rendered, "archelon")
			// There it stops the manager, which the manager does not.
			delete(uninstaller, "archelon-system")
			places := maps.Clone(manager)
			delete(places, "archelon-system")
			if len(uninstaller) != len(places) {
				t.Errorf("it has rights in %d places, and the manager in %d", len(uninstaller), len(places))
			}
			deletes := checkUninstaller(t, uninstaller, manager)
			if want := strings.HasSuffix(name, "Deletes"); deletes != want {
				t.Errorf("it may delete: %t, want %t", deletes, want)
			}
			where := slices.Concat(uninstaller[""], uninstaller["watch1"])
			if got, want := slices.Contains(where, "patch secrets."), strings.HasSuffix(name, "Claims"); got != want {
				t.Errorf("it may release Secrets: %t, want %t", got, want)
			}
		})
	}
}

// checkUninstaller reports whether the uninstaller may delete anything but the registration of the
// instance, which the manager keeps.
func checkUninstaller(t *testing.T, uninstaller, manager map[string][]string) bool {
	t.Helper()
	deletes := false
	for namespace, rights := range uninstaller {
		for _, right := range rights {
			if right == "delete leases.coordination.k8s.io[archelon-system-archelon-leader-election]" {
				continue
			}
			deletes = deletes || strings.HasPrefix(right, "delete ")
			// The manager sees its RoleBindings by a watch, which is for all namespaces.
			listed := strings.Replace(right, "get rolebindings.", "list rolebindings.", 1)
			if !includes(slices.Concat(manager[namespace], manager[""]), listed) {
				t.Errorf("it may %q in %q, and the manager may not", right, namespace)
			}
		}
	}
	return deletes
}

// Whatever a controller puts a finalizer on, the uninstaller may find and release.
func TestTheUninstallerMayReleaseWhatControllersHold(t *testing.T) {
	features := values{"host-claim": values{"enabled": true}}
	for name, set := range map[string]values{
		"Central": {"features": features}, "Isolated": {"namespaces": []string{"watch1", "watch2"}, "features": features},
	} {
		uninstaller := granted(t, objects(t, release{"archelon", "archelon-system"}, set), "archelon.uninstall")
		may := slices.Concat(uninstaller[""], uninstaller["watch1"])
		for _, c := range setup.Controllers() {
			if c.Isolated && name != "Isolated" {
				continue
			}
			for _, kind := range c.Holds {
				mapping, err := scheme.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
				if err != nil {
					t.Fatal(err)
				}
				resource := mapping.Resource.GroupResource().String()
				if !slices.ContainsFunc(may, func(right string) bool { return strings.HasPrefix(right, "patch "+resource) }) {
					t.Errorf("%s: %s holds %s, and the uninstaller may not patch these", name, c.Name, resource)
				}
			}
		}
	}
}

// In its own namespace a release has both what stops the manager and what lets go of clusters.
func TestRightsOfTheUninstallerAtHome(t *testing.T) {
	rendered := objects(t, release{"archelon", "archelon-system"}, values{"namespaces": []string{"archelon-system", "watch2"}})
	uninstaller := granted(t, rendered, "archelon.uninstall")
	home := uninstaller["archelon-system"]
	for _, right := range append(uninstaller["watch2"], "patch deployments/scale.apps[archelon]") {
		if !slices.Contains(home, right) {
			t.Errorf("it may not %q in the namespace of the release", right)
		}
	}
	if len(uninstaller["watch2"]) == 0 {
		t.Error("it has no rights in watch2")
	}
}

// includes reports whether a right is among others, or is one of them for an object of a name.
func includes(rights []string, right string) bool {
	plain, _, _ := strings.Cut(right, "[")
	return slices.Contains(rights, right) || slices.Contains(rights, plain)
}
