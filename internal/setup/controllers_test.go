package setup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// permissions is a file of the chart.
type permissions struct {
	When               string                         `json:"when"`
	Cluster, Namespace []rbacv1.PolicyRule            `json:",omitempty"`
	Named              map[string][]rbacv1.PolicyRule `json:"named"`
	Rancher            bool                           `json:"rancher"`
}

func permissionsOf(t *testing.T, pkg string) permissions {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "archelon", "files", "permissions", strings.ReplaceAll(pkg, "/", "-")+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var found permissions
	if err := yaml.UnmarshalStrict(raw, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// grants reports whether rules grant a verb for a resource, of a name if it is not empty.
func grants(rules []rbacv1.PolicyRule, verb, group, resource, name string) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
	})
}

// A new controller needs no case here.
func TestEachControllerMayReceiveWhatItSays(t *testing.T) {
	scope, err := shard.New([]string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Controllers() {
		t.Run(c.Name, func(t *testing.T) {
			may := permissionsOf(t, c.Package)
			if c.Package == "import" || c.Package == "agentmanifest" { // Both read what internal/rancher names.
				in := permissionsOf(t, "rancher")
				may.Cluster, may.Namespace = append(may.Cluster, in.Cluster...), append(may.Namespace, in.Namespace...)
			}
			if c.Package == "fleetcluster" || c.Package == "rolekeeper" { // They read what these two need, if the instance imports.
				all, in := permissionsOf(t, "import"), permissionsOf(t, "rancher")
				may.Cluster = slices.Concat(may.Cluster, all.Cluster, in.Cluster)
				may.Namespace = slices.Concat(may.Namespace, all.Namespace, in.Namespace)
			}
			if want := Permissions()[c.Package]; may.When != want {
				t.Errorf("its permissions are for %q, want %q: run make generate", may.When, want)
			}
			for _, crd := range c.CRDs {
				expectReceived(t, may.Cluster, schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, crd.Name)
			}
			for _, watch := range c.Watches(scope) {
				expectWatched(t, may, c, watch)
			}
		})
	}
}

// expectWatched wants a controller to have permission for one of its watches, where it needs it.
func expectWatched(t *testing.T, may permissions, c controller.Controller, watch controller.Watch) {
	t.Helper()
	mapping, err := mappingOf(c, watch.Object)
	if err != nil {
		t.Fatal(err)
	}
	rules, name := slices.Concat(slices.Collect(maps.Values(may.Named))...), ""
	rules = append(rules, may.Cluster...)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && watch.By.Namespaces == nil {
		rules = may.Namespace
	}
	if watch.By.Field != nil {
		name, _ = watch.By.Field.RequiresExactMatch("metadata.name")
	}
	expectReceived(t, rules, mapping.Resource.GroupResource(), name)
}

// expectReceived wants rules for a list and a watch of a resource, of a name if it is not empty.
func expectReceived(t *testing.T, rules []rbacv1.PolicyRule, resource schema.GroupResource, name string) {
	t.Helper()
	for _, verb := range []string{"list", "watch"} {
		if !grants(rules, verb, resource.Group, resource.Resource, name) {
			t.Errorf("it may not %s %s %s, which it receives", verb, resource, name)
		}
	}
}

func TestDescriptionsAreComplete(t *testing.T) {
	gates, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range Controllers() {
		if c.Name == "" || names[c.Name] || c.Package == "" || c.Watches == nil || c.Setup == nil {
			t.Errorf("the description of %q is not complete, or another one has its name", c.Name)
		}
		names[c.Name] = true
		if _, known := gates.GetAll()[c.Gate]; c.Gate != "" && !known {
			t.Errorf("%s has gate %s, which is not in package feature", c.Name, c.Gate)
		}
	}
}

// The uninstaller and the withdrawal of permissions release what is listed in package hold, and know no controller.
func TestWhatControllersHoldIsReleased(t *testing.T) {
	released := []schema.GroupVersionKind{rbacv1.SchemeGroupVersion.WithKind("RoleBinding")} // by its own finalizer
	for _, holding := range hold.All() {
		released = append(released, holding.Kinds()...)
	}
	held := map[schema.GroupVersionKind]bool{}
	for _, c := range Controllers() {
		for _, kind := range c.Holds {
			held[kind] = true
			if !slices.Contains(released, kind) {
				t.Errorf("%s holds %s, and nothing releases that when Archelon is uninstalled: list it in hold.All", c.Name, kind)
			}
		}
	}
	for _, kind := range released {
		if !held[kind] {
			t.Errorf("no controller says that it holds %s", kind)
		}
	}
}

// A controller that is off costs nothing: it is not asked for permissions, and narrows no cache.
func TestOnlyWhatIsOnRuns(t *testing.T) {
	gates, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	all := []controller.Controller{{Name: "always"}, {Name: "off", Option: "option", Off: true}, {Name: "gated", Gate: feature.ManagementV3Cluster}, {Name: "keeper", Isolated: true}}
	names := func(isolated bool) string {
		var on []string
		for _, c := range controller.On(all, gates, isolated) {
			on = append(on, c.Name)
		}
		return strings.Join(on, " ")
	}
	if got := names(false); got != "always" {
		t.Errorf("got %s", got)
	}
	if err := gates.Set("managementv3-cluster=true"); err != nil {
		t.Fatal(err)
	}
	if got := names(true); got != "always gated keeper" {
		t.Errorf("got %s", got)
	}
}

func TestLocalProxiesOfKubeconfigsAreForAdministrators(t *testing.T) {
	for _, args := range [][]string{{}, {"--allow-local-proxy-urls"}} {
		opts, err := options.New()
		if err != nil {
			t.Fatal(err)
		}
		flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
		opts.AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		if got := (&parts{opts: opts}).workloadOptions().Allow.LocalProxies; got != (len(args) > 0) {
			t.Errorf("with %q local proxies are allowed: %t", args, got)
		}
	}
}
