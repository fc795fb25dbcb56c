package importv3

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	importer "github.com/archelon-io/archelon/internal/import"
)

func capiCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod", UID: "uid-1"}}
}

func TestProposeName(t *testing.T) {
	// Rancher's rule for a name that it treats like one of its own.
	rule := regexp.MustCompile(`^c-[a-z0-9]{5}$`)
	refused := 3
	name := Strategy{}.ProposeName(capiCluster(), func(string) bool { refused--; return refused >= 0 })
	if !rule.MatchString(name) {
		t.Errorf("got name %q, want one that matches %s", name, rule)
	}
	if refused != -1 {
		t.Errorf("a name was proposed after %d questions, want the first that is not taken", 3-refused)
	}
}

func TestRender(t *testing.T) {
	got := Strategy{}.Render(importer.Desired{
		Cluster: capiCluster(), Name: "c-abcde", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		Description: "ours", AgentEnv: []corev1.EnvVar{{Name: "A", Value: "B"}}, FleetWorkspace: "blue",
	})
	want := map[string]any{
		"apiVersion": "management.cattle.io/v3",
		"kind":       "Cluster",
		"metadata": map[string]any{
			"name": "c-abcde", "labels": map[string]any{"l": "1"}, "annotations": map[string]any{"a": "2"},
			"finalizers": []any{"archelon.io/rancher-import"},
		},
		"spec": map[string]any{
			"displayName": "prod", "description": "ours", "fleetWorkspaceName": "blue",
			"agentEnvVars": []any{map[string]any{"name": "A", "value": "B"}},
		},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	bare := Strategy{}.Render(importer.Desired{Cluster: capiCluster(), Name: "c-abcde"})
	if diff := cmp.Diff(map[string]any{"displayName": "prod"}, bare.Object["spec"]); diff != "" {
		t.Errorf("what is not asked for must not be set: (-want +got)\n%s", diff)
	}
	asked := Strategy{}.Render(importer.Desired{Cluster: capiCluster(), Name: "c-abcde", DisplayName: "blue"})
	if diff := cmp.Diff(map[string]any{"displayName": "blue"}, asked.Object["spec"]); diff != "" {
		t.Errorf("with a display name: (-want +got)\n%s", diff)
	}
}

// The form is remembered, whatever the name is: the annotation may be removed later.
func TestTheFormIsRemembered(t *testing.T) {
	for asked, want := range map[string]string{"": "default-prod", "blue": "blue"} {
		cluster := capiCluster()
		cluster.Namespace = "default"
		got := Strategy{}.Render(importer.Desired{Cluster: cluster, Name: "c-abcde", DisplayName: asked, Form: importer.NamespaceNameForm})
		if diff := cmp.Diff(map[string]any{"displayName": want}, got.Object["spec"]); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"archelon.io/display-name-form": "NamespaceName"}, got.GetAnnotations()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestDisplayName(t *testing.T) {
	for asked, want := range map[string]string{"": "prod", "blue": "blue"} {
		if got, unique := (Strategy{}).DisplayName(importer.Desired{Cluster: capiCluster(), Name: "c-abcde", DisplayName: asked}); got != want || !unique {
			t.Errorf("%q: got %q, unique: %t; want %q, which nobody else may have", asked, got, unique, want)
		}
	}
}

func TestDerived(t *testing.T) {
	own := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}
	derived := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-abcdefgh", Annotations: map[string]string{"provisioning.cattle.io/administrated": "false"}}}
	if (Strategy{}).Derived(own) || !(Strategy{}).Derived(derived) {
		t.Error("only a v3 Cluster that Rancher made from a v1 Cluster is derived")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"c-bcdfg": true, "c-24567": true, "c-01234": false, "c-abcde": false, "c-bcdf": false, "c-bcdfgh": false, "c-m-bcdfg": false,
		"victim": false, "cattle-system": false, "local": false, "c-BCDFG": false, "xc-bcdfg": false, "c-bcdfg\n": false,
	} {
		if got := (Strategy{}).Names(capiCluster(), name); got != want {
			t.Errorf("Names(%q) = %t, want %t", name, got, want)
		}
	}
	for range 1000 {
		if name := (Strategy{}).ProposeName(capiCluster(), func(string) bool { return false }); !(Strategy{}).Names(capiCluster(), name) {
			t.Fatalf("%q was proposed and is not known again", name)
		}
	}
}
