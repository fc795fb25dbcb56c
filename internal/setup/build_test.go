package setup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/archelon-io/archelon/internal/version"
)

func TestRegisterBuild(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registerBuild(registry, version.Build{Version: "v1.2.3", Revision: "abcdef0", GoVersion: "go1.26.8", Platform: "linux/amd64"}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "archelon_build_info" || len(families[0].GetMetric()) != 1 {
		t.Fatalf("got %v, want one metric archelon_build_info", families)
	}
	metric := families[0].GetMetric()[0]
	if got := metric.GetGauge().GetValue(); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	want := map[string]string{"version": "v1.2.3", "revision": "abcdef0", "goversion": "go1.26.8"}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestCachesAreNotSyncedUntilSaidSo(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge, err := newSynced(registry)
	if err != nil {
		t.Fatal(err)
	}
	// An alert looks for 0, and would not find what is absent.
	for want, set := range []func(){func() {}, func() { gauge.Set(1) }} {
		set()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) != 1 || families[0].GetName() != "archelon_caches_synced" || families[0].GetMetric()[0].GetGauge().GetValue() != float64(want) {
			t.Errorf("got %v, want archelon_caches_synced of %v", families, want)
		}
	}
}
