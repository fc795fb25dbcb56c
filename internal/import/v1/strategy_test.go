package importv1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	importer "github.com/archelon-io/archelon/internal/import"
)

func capiCluster(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, UID: "uid-1"}}
}

func TestProposeName(t *testing.T) {
	free := func(string) bool { return false }
	propose := func(name string, taken func(string) bool) string {
		return Strategy{}.ProposeName(capiCluster(name), taken)
	}
	if got := propose("prod", free); got != "prod-capi" {
		t.Errorf("got %q, want prod-capi", got)
	}
	// Rancher deletes the CAPI cluster that has the name of a v1 record.
	other := propose("prod", func(name string) bool { return name == "prod-capi" })
	if other == "prod-capi" || !strings.HasPrefix(other, "prod-") || !strings.HasSuffix(other, "-capi") {
		t.Errorf("got %q, want another name for prod", other)
	}
	seen := map[string]string{}
	for _, name := range []string{"a.b", "a-b", strings.Repeat("x", 63), strings.Repeat("x", 62), strings.Repeat("x", 61) + ".x", "x"} {
		got := propose(name, free)
		if again := propose(name, free); again != got {
			t.Errorf("%q: got %q and then %q, want a stable name", name, got, again)
		}
		if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
			t.Errorf("%q: got %q, which Rancher refuses: %v", name, got, problems)
		}
		if got == name {
			t.Errorf("%q: the record must not have the name of its CAPI cluster", name)
		}
		if twin, ok := seen[got]; ok {
			t.Errorf("%q and %q would share the record %q", name, twin, got)
		}
		seen[got] = name
	}
}

func TestRender(t *testing.T) {
	annotations := map[string]string{"a": "2"}
	got := Strategy{}.Render(importer.Desired{
		Cluster: capiCluster("prod"), Name: "prod-capi", Labels: map[string]string{"l": "1"}, Annotations: annotations,
		Description: "ours", AgentEnv: []corev1.EnvVar{{Name: "A", Value: "B"}}, FleetWorkspace: "blue",
	})
	want := map[string]any{
		"apiVersion": "provisioning.cattle.io/v1",
		"kind":       "Cluster",
		"metadata": map[string]any{
			"namespace": "tenant", "name": "prod-capi", "labels": map[string]any{"l": "1"},
			"annotations": map[string]any{
				"a": "2", "field.cattle.io/description": "ours", "provisioning.cattle.io/fleet-workspace-name": "blue",
			},
			"finalizers": []any{"archelon.io/rancher-import"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "uid-1",
			}},
		},
		"spec": map[string]any{"agentEnvVars": []any{map[string]any{"name": "A", "value": "B"}}},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(annotations) != 1 {
		t.Error("Render changed the annotations that it was given")
	}
}

// FuzzProposeName looks for a CAPI cluster whose record would have a name that Rancher refuses, or that of the CAPI
// cluster, which Rancher would delete together with the record.
func FuzzProposeName(f *testing.F) {
	for _, seed := range []string{"prod", "a.b", "a-b", strings.Repeat("x", 63), strings.Repeat("x", 31) + "." + strings.Repeat("y", 31), "0", "a--b", "x-capi", strings.Repeat("a.", 100) + "a"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, name string, first bool) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Skip()
		}
		var refused string
		taken := func(proposed string) bool {
			if first && refused == "" {
				refused = proposed
			}
			return proposed == refused
		}
		got := Strategy{}.ProposeName(capiCluster(name), taken)
		if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
			t.Errorf("%q: got %q: %v", name, got, problems)
		}
		if got == name || got == refused {
			t.Errorf("%q: got %q, which is taken", name, got)
		}
	})
}

func TestNames(t *testing.T) {
	for name, test := range map[string]struct {
		reason, cluster, name string
		want                  bool
	}{
		"First":    {reason: "the first choice", cluster: "prod", name: "prod-capi", want: true},
		"Second":   {reason: "where that is taken", cluster: "prod", name: "prod-2d2f1cf3-capi", want: true},
		"Hash":     {reason: "the hash of another cluster", cluster: "prod", name: "prod-00000000-capi"},
		"Other":    {reason: "the record of another cluster", cluster: "prod", name: "test-capi"},
		"Cluster":  {reason: "Rancher would delete the CAPI cluster with it", cluster: "prod", name: "prod"},
		"V3":       {reason: "Rancher would make it the companion of that v3 Cluster", cluster: "prod", name: "c-vvvvv"},
		"NotFirst": {reason: "a name with dots always has a hash", cluster: "a.b", name: "a-b-capi"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Strategy{}).Names(capiCluster(test.cluster), test.name); got != test.want {
				t.Errorf("Names(%s, %s) = %t: %s", test.cluster, test.name, got, test.reason)
			}
		})
	}
	for _, name := range []string{"prod", "a.b", strings.Repeat("x", 63)} {
		for _, taken := range []bool{false, true} {
			if proposed := (Strategy{}).ProposeName(capiCluster(name), func(string) bool { return taken }); !(Strategy{}).Names(capiCluster(name), proposed) {
				t.Errorf("%q was proposed for %q and is not known again", proposed, name)
			}
		}
	}
}

func TestDisplayName(t *testing.T) {
	for workspace, want := range map[string]bool{"": false, "tenant": false, "fleet-default": true} {
		cluster := capiCluster("prod")
		cluster.Namespace = "tenant"
		got, unique := Strategy{}.DisplayName(importer.Desired{Cluster: cluster, Name: "prod-capi", DisplayName: "blue", FleetWorkspace: workspace})
		if got != "prod-capi" || unique != want {
			t.Errorf("workspace %q: got %q, unique: %t; want the name of the record, unique: %t", workspace, got, unique, want)
		}
	}
}
