package importer

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// allowing are rules that have the given annotations copied.
func allowing(patterns ...string) Rules { return Rules{PropagatedAnnotations: patterns} }

// propagatedTo returns what a Rancher cluster gets of the annotations of its CAPI cluster, and the list of their keys.
func propagatedTo(t *testing.T, rules Rules, cluster *clusterv1.Cluster) (map[string]string, string) {
	t.Helper()
	plain, err := Rules{}.desired(cluster, "x")
	if err != nil {
		t.Fatal(err)
	}
	desired, err := rules.desired(cluster, "x")
	if err != nil {
		t.Fatal(err)
	}
	keys := desired.Annotations["archelon.io/propagated-annotations"]
	delete(desired.Annotations, "archelon.io/propagated-annotations")
	maps.DeleteFunc(desired.Annotations, func(key, _ string) bool { _, same := plain.Annotations[key]; return same })
	return desired.Annotations, keys
}

func TestPropagatedAnnotations(t *testing.T) {
	cluster := testCluster(held)
	maps.Copy(cluster.Annotations, map[string]string{
		"example.com/cost": "1", "example.com/empty": "", "sub.example.com/cost": "2", "other.io/a": "3", "other.io/b": "4", "cost": "5",
	})
	for name, tc := range map[string]struct {
		rules Rules
		want  map[string]string
		keys  string
	}{
		"None":    {want: map[string]string{}},
		"Key":     {rules: allowing("other.io/a"), want: map[string]string{"other.io/a": "3"}, keys: "other.io/a"},
		"Pattern": {rules: allowing("example.com/*"), want: map[string]string{"example.com/cost": "1", "example.com/empty": ""}, keys: "example.com/cost,example.com/empty"},
		"Several": {rules: allowing("example.com/c*", "other.io/*"), want: map[string]string{"example.com/cost": "1", "other.io/a": "3", "other.io/b": "4"}, keys: "example.com/cost,other.io/a,other.io/b"},
	} {
		reduced := cluster.DeepCopy()
		for range 2 { // The informer may hand over what it has reduced before.
			if _, err := tc.rules.Reduce(reduced); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range []*clusterv1.Cluster{cluster, reduced} {
			got, keys := propagatedTo(t, tc.rules, one)
			if diff := cmp.Diff(tc.want, got); diff != "" || keys != tc.keys {
				t.Errorf("%s: got keys %s, want %s (-want +got):\n%s", name, keys, tc.keys, diff)
			}
		}
	}
}

// By each of these a tool finds what it owns or what it does with it, or Rancher or Kubernetes reads it.
func TestAnnotationsOfToolsAreNotPropagated(t *testing.T) {
	for _, key := range []string{
		"kubectl.kubernetes.io/last-applied-configuration", "argocd.argoproj.io/tracking-id", "ARGOCD.argoproj.io/tracking-id",
		"meta.helm.sh/release-name", "helm.toolkit.fluxcd.io/driftDetection", "kustomize.toolkit.fluxcd.io/prune",
		"config.kubernetes.io/owning-inventory", "config.k8s.io/owning-inventory", "configmanagement.gke.io/token",
		"kapp.k14s.io/identity", "crossplane.io/external-name", "pulumi.com/patchForce", "operator-sdk/primary-resource",
		"janitor/ttl", "janitor/expires", "policies.kyverno.io/last-applied-patches",
		"cluster.x-k8s.io/paused", "clusterctl.cluster.x-k8s.io/block-move", "archelon.io/managed-by",
		"provisioning.cattle.io/administrated", "field.cattle.io/creatorId", "authz.management.cattle.io/creator-role-bindings",
		"rancher.io/imported-cluster-version-management", "ui.rancher/badge-text", "io.cattle.agent.force.deploy", "example.com/cattle.io",
		"imported", "v2prov-secret-migrated",
	} {
		domain, name, _ := strings.Cut(key, "/")
		rules := allowing(key, domain+"/*", domain+"/"+name+"*", strings.ToLower(key))
		cluster := testCluster(held)
		cluster.Annotations[key] = "x"
		if keys := rules.annotationsOf(cluster); len(keys) > 0 {
			t.Errorf("got %v", keys)
		}
		if err := CheckPropagatedAnnotation(key); err == nil {
			t.Errorf("%s may be asked for", key)
		}
	}
}

func TestCheckPropagatedAnnotation(t *testing.T) {
	for pattern, want := range map[string]string{
		"example.com/cost": "", "example.com/*": "", "example.com/a*b*": "", "Example.com/A_b.c": "", "myargoproj.io/*": "", "rancher.example.com/a": "",
		"cost": "must have a domain and a name", "*": "must have a domain and a name", "/a": "must have a domain and a name", "a.io/": "must have a domain and a name",
		"a.io/b/c": "must have a domain and a name", "*/a": "must name its domain", "*.io/a": "must name its domain", "*/*": "must name its domain",
		"a.io/[ab]": "no other pattern than *", "a.io/a?": "no other pattern than *", `a.io/\*`: "no other pattern than *", "a.io/a b": "no other pattern than *",
		"argocd.argoproj.io/*": "is never copied", "Kubectl.Kubernetes.io/a": "is never copied", "a.io/cattle.io*": "is never copied",
	} {
		err := CheckPropagatedAnnotation(pattern)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}

// What exceeds the bound is known by that, whole or from the cache, and never looks as if it had been taken off.
func TestAnnotationsBeyondTheBound(t *testing.T) {
	rules := allowing("example.com/*")
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprintf("example.com/%04d", i)] = strings.Repeat("v", 100)
	}
	for name, annotations := range map[string]map[string]string{
		"One":        {"example.com/a": strings.Repeat("v", 200<<10)},
		"Characters": {"example.com/a": strings.Repeat("€", 50<<10)},
		"Many":       many,
		"BesideOurs": {
			"example.com/a": strings.Repeat("v", controller.MaxLabels), "archelon.io/agent-env": strings.Repeat("x", 60<<10),
			"archelon.io/members": strings.Repeat("x", 60<<10), "archelon.io/agent-deployment": strings.Repeat("x", 60<<10),
		},
	} {
		cluster := testCluster(held)
		maps.Copy(cluster.Annotations, annotations)
		whole := cluster.DeepCopy()
		for range 2 {
			if _, err := rules.Reduce(cluster); err != nil {
				t.Fatal(err)
			}
		}
		size := 0
		for key, value := range cluster.Annotations {
			size += len(key) + len(value)
		}
		if size > 128<<10 {
			t.Errorf("%s: %d KiB are left", name, size>>10)
		}
		for _, one := range []*clusterv1.Cluster{whole, cluster} {
			err := rules.addAnnotations(&Desired{Cluster: one, Annotations: map[string]string{}})
			if out := outcome.FromError(err, ""); out.Kind != outcome.KindStall || out.Reason != "TooManyAnnotations" {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// Annotations that are just within the bound are all there, whatever other annotations there are.
func TestAnnotationsWithinTheBoundAreWhole(t *testing.T) {
	rules := allowing("example.com/*")
	cluster := testCluster(held)
	want := map[string]string{"example.com/a": strings.Repeat("v", controller.MaxLabels-26), "example.com/z": ""}
	maps.Copy(cluster.Annotations, want)
	for i := range 500 {
		cluster.Annotations[fmt.Sprintf("archelon.io/%04d", i)] = strings.Repeat("v", 300)
	}
	if _, err := rules.Reduce(cluster); err != nil {
		t.Fatal(err)
	}
	desired := Desired{Cluster: cluster, Annotations: map[string]string{}}
	if err := rules.addAnnotations(&desired); err != nil {
		t.Fatal(err)
	}
	delete(desired.Annotations, "archelon.io/propagated-annotations")
	if !maps.Equal(desired.Annotations, want) {
		t.Errorf("got %d annotations, want %d", len(desired.Annotations), len(want))
	}
}
