package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	oci "github.com/archelon-io/archelon/identity"
)

// gathered returns the values of metrics by "name label,label".
func gathered(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[family.GetName()+" "+strings.Join(labels, ",")] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	meters, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(reason string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, gathered(t, registry)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", reason, diff)
		}
	}
	expect("a replica that does not lead counts nothing", map[string]float64{})

	known := newMemory()
	meters.memory.Store(known)
	one, two := types.NamespacedName{Namespace: "a", Name: "one"}, types.NamespacedName{Namespace: "a", Name: "two"}
	known.notePublished(one, state{"True", "Ready"}, map[userID]oci.Verdict{
		{"OCICluster", "a", "x"}: {Allowed: true}, {"OCICluster", "b", "x"}: {Reason: "NamespaceNotAllowed"},
	})
	known.notePublished(two, state{"True", "Ready"}, map[userID]oci.Verdict{{"OCICluster", "a", "y"}: {Allowed: true}})
	meters.verified(rejected)
	expect("identities by state, clusters by reason", map[string]float64{
		"archelon_identity_identities Ready,True": 2, "archelon_identity_clusters ": 2,
		"archelon_identity_clusters NamespaceNotAllowed": 1, "archelon_identity_verifications_total rejected": 1,
	})

	known.notePublished(one, state{}, map[userID]oci.Verdict{})
	expect("it has gone, and so have its clusters", map[string]float64{
		"archelon_identity_identities Ready,True": 1, "archelon_identity_clusters ": 1,
		"archelon_identity_verifications_total rejected": 1,
	})
	if _, err := NewMetrics(registry); err == nil {
		t.Error("one registry takes them twice")
	}
	if _, err := NewMetrics(nil); err == nil {
		t.Error("they need no registry")
	}
	(*Metrics)(nil).verified(accepted) // Nobody counts.
}
