package translation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/archelon-io/archelon/internal/shard"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	known := newMemory()
	m.memory.Store(known)
	for name, reason := range map[string]string{"cc-1": "Translated", "cc-2": "Translated", "cc-3": "Collision", "cc-4": ""} {
		known.noteReason(name, reason, false)
	}
	known.noteReason("cc-2", "", true)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "archelon_identity_credentials" {
		t.Fatalf("got %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		got[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"Translated": 1, "Collision": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(known.entries) != 3 {
		t.Errorf("it remembers %d, and one of four is gone", len(known.entries))
	}
	if _, err := NewMetrics(nil); err == nil {
		t.Error("it does without a registry")
	}
}

// Secrets are received from two namespaces, and from none where another instance works.
func TestWatches(t *testing.T) {
	tenant, err := shard.New([]string{"tenant"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		namespace string
		scope     shard.Scope
		want      int
	}{
		"All": {"oci", shard.Scope{}, 2}, "Elsewhere": {"oci", tenant, 0}, "NoNamespace": {"", shard.Scope{}, 0},
	} {
		watches := Controller("gate", tc.namespace, nil).Watches(tc.scope)
		if len(watches) != tc.want {
			t.Errorf("%s: got %d kinds, want %d", name, len(watches), tc.want)
		}
		for _, watch := range watches {
			_, theirs := watch.By.Namespaces[CredentialNamespace]
			if _, ours := watch.By.Namespaces["oci"]; watch.Own && (!theirs || !ours || len(watch.By.Namespaces) != 2) {
				t.Errorf("%s: Secrets come from %v", name, watch.By.Namespaces)
			}
		}
	}
}
