package state

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	"k8s.io/kube-state-metrics/v2/pkg/metric"
)

// lines is what kube-state-metrics makes of an object.
func lines(t *testing.T, object map[string]any) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "kube-state-metrics.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Kind                        string `yaml:"kind"`
		customresourcestate.Metrics `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&document); err != nil || document.Kind != "CustomResourceStateMetrics" {
		t.Fatalf("the kind is %q: %v", document.Kind, err)
	}
	var out strings.Builder
	for _, resource := range document.Spec.Resources {
		// The rest it finds out from the CRD, and it does not mind the case of types.
		resource.ResourcePlural = "clusters"
		for i := range resource.Metrics {
			each := &resource.Metrics[i].Each
			each.Type = metric.Type(strings.ToLower(string(each.Type)))
		}
		factory, err := customresourcestate.NewCustomResourceMetrics(resource)
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range factory.MetricFamilyGenerators() {
			generated := family.Generate(&unstructured.Unstructured{Object: object})
			generated.Name = family.Name
			out.Write(generated.ByteSlice())
		}
	}
	return out.String()
}

func TestConfiguration(t *testing.T) {
	const (
		kind = `customresource_group="cluster.x-k8s.io",customresource_kind="Cluster",customresource_version="v1beta2"`
		name = `{cluster="prod",` + kind + `,namespace="tenant-a",rancher_cluster="c-abcde"`
	)
	metadata := map[string]any{"name": "prod", "namespace": "tenant-a", "annotations": map[string]any{"archelon.io/rancher-cluster": "c-abcde"}}
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "Something.", "lastTransitionTime": "2001-09-09T01:46:40Z", "observedGeneration": int64(1)}
	}
	cases := map[string]struct {
		reason     string
		conditions []any
		want       []string
	}{
		"Imported": {
			reason:     "the condition of CAPI beside it is no matter",
			conditions: []any{condition("Available", "False", "NotAvailable"), condition("RancherImported", "True", "Imported")},
			want:       []string{"archelon_cluster_imported" + name + `,reason="Imported"} 1`, "archelon_cluster_imported_changed" + name + `} 1e+09`},
		},
		"Connected": {
			reason:     "both conditions, and one of them says no",
			conditions: []any{condition("RancherImported", "False", "WaitingForAgent"), condition("FleetEngaged", "True", "Engaged")},
			want: []string{
				"archelon_cluster_imported" + name + `,reason="WaitingForAgent"} 0`, "archelon_cluster_imported_changed" + name + `} 1e+09`,
				"archelon_cluster_fleet_engaged" + name + `,reason="Engaged"} 1`,
			},
		},
		"Nobody's": {reason: "Clusters that are not selected have no series", conditions: []any{condition("Available", "True", "Available")}},
		"New":      {reason: "there may be no conditions yet"},
	}
	for test, tc := range cases {
		t.Run(test, func(t *testing.T) {
			status := map[string]any{}
			if tc.conditions != nil {
				status["conditions"] = tc.conditions
			}
			got := lines(t, map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "status": status})
			if diff := cmp.Diff(strings.Join(append(tc.want, ""), "\n"), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
