package importer

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestClassLabels(t *testing.T) {
	const name, namespace = "clusterclass-name.fleet.addons.cluster.x-k8s.io", "clusterclass-namespace.fleet.addons.cluster.x-k8s.io"
	for reason, tc := range map[string]struct {
		class clusterv1.ClusterClassRef
		on    bool
		want  map[string]string
	}{
		"No class":        {on: true},
		"Not asked for":   {class: clusterv1.ClusterClassRef{Name: "quick"}},
		"Beside":          {class: clusterv1.ClusterClassRef{Name: "quick"}, on: true, want: map[string]string{name: "quick", namespace: "tenant"}},
		"Elsewhere":       {class: clusterv1.ClusterClassRef{Name: "quick.v1", Namespace: "classes"}, on: true, want: map[string]string{name: "quick.v1", namespace: "classes"}},
		"Too long a name": {class: clusterv1.ClusterClassRef{Name: strings.Repeat("a", 64)}, on: true},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster := testCluster(func(c *clusterv1.Cluster) {
				c.Spec.Topology.ClassRef = tc.class
				// Nobody forges them.
				c.Labels = map[string]string{name: "forged", namespace: "forged", "team": "a"}
			})
			desired, err := (Rules{ClassLabels: tc.on}).desired(cluster, "c-abcde")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, ofClassAlone(desired.Labels), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			wantClassFollowed(t, desired, tc.want)
		})
	}
}

func ofClassAlone(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.HasPrefix(key, "clusterclass-") })
	return labels
}

// wantClassFollowed shows what becomes of a record that had another class, and labels of its own.
func wantClassFollowed(t *testing.T, desired Desired, want map[string]string) {
	t.Helper()
	observed := renderManagement(desired)
	observed.SetUID("uid-2")
	annotations, labels := observed.GetAnnotations(), map[string]string{"team": "a", "own": "stays"}
	annotations["archelon.io/propagated-labels"] = "team"
	expected := map[string]any{}
	for _, key := range []string{"clusterclass-name.fleet.addons.cluster.x-k8s.io", "clusterclass-namespace.fleet.addons.cluster.x-k8s.io"} {
		annotations["archelon.io/propagated-labels"] += "," + key
		labels[key], expected[key] = "before", nil
		if value, ok := want[key]; ok {
			expected[key] = value
		}
	}
	for key, value := range desired.Labels {
		if _, ok := labels[key]; !ok {
			expected[key] = value
		}
	}
	observed.SetLabels(labels)
	observed.SetAnnotations(annotations)
	raw, err := syncPatch(observed, renderManagement(desired))
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Metadata struct {
			Labels map[string]any `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, patch.Metadata.Labels); diff != "" {
		t.Error(diff)
	}
}
