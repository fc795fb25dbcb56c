package importer_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
)

// A Rancher cluster that is as it was rendered must not be written to: what is compared has all that can be rendered.
func TestWhatWasRenderedIsSettled(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name, cluster.UID = "tenant", "prod", "uid-1"
	desired := importer.Desired{
		Cluster: cluster, Name: "c-abcde", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		Description: "ours", DisplayName: "prod-1", Form: importer.NamespaceNameForm, AgentEnv: []corev1.EnvVar{{Name: "A", Value: "B"}}, FleetWorkspace: "blue",
		Registry: "registry.example.com", PullSecrets: []string{"pull"},
		AgentDeployment: map[string]map[string]any{
			"clusterAgentDeploymentCustomization": {"appendTolerations": []any{map[string]any{"key": "k", "operator": "Exists"}}},
			"fleetAgentDeploymentCustomization":   {"appendTolerations": []any{map[string]any{"key": "f", "operator": "Exists"}}},
		},
	}
	for i := range reflect.ValueOf(desired).NumField() {
		if reflect.ValueOf(desired).Field(i).IsZero() {
			t.Fatalf("nothing is asked for with %s", reflect.TypeOf(desired).Field(i).Name)
		}
	}
	for _, strategy := range []importer.Strategy{importv1.Strategy{}, importv3.Strategy{}} {
		t.Run(strategy.Kind(), func(t *testing.T) {
			rendered := strategy.Render(desired)
			record := strategy.NewObject()
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rendered.Object, record); err != nil {
				t.Fatal(err)
			}
			if patch, err := importer.SyncPatch(record, rendered); patch != nil || err != nil {
				t.Errorf("got %s, %v", patch, err)
			}
		})
	}
}
