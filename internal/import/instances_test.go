package importer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/instance"
)

func TestOverlapMessage(t *testing.T) {
	self := instance.ID{Namespace: "one", Name: "archelon"}
	rivals := make([]instance.ID, 256)
	for i := range rivals {
		rivals[i] = instance.ID{Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%s%03d", strings.Repeat("i", 60), i)}
	}
	for name, tc := range map[string]struct {
		reason string
		rivals []instance.ID
		want   string
	}{
		"One": {
			reason: "it is named", rivals: []instance.ID{{Namespace: "two", Name: "archelon"}},
			want: "and two/archelon claims it as well",
		},
		"Five": {reason: "all are named", rivals: rivals[:5], want: rivals[4].String() + " claims it as well"},
		"Many": {reason: "the rest is counted", rivals: rivals, want: rivals[4].String() + " and 251 more claims it as well"},
	} {
		t.Run(name, func(t *testing.T) {
			got := overlapMessage(self, tc.rivals)
			if !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "Instance one/archelon works on this cluster") {
				t.Errorf("%s: got %q, want %q in it", tc.reason, got, tc.want)
			}
			if len(got) > 1024 {
				t.Errorf("%s: %d bytes", tc.reason, len(got))
			}
		})
	}
}

// Peers come and go, and what is counted of them goes with them.
func TestClustersLeftToPeersAreForgotten(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	series := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "archelon_import_clusters_left_to_peer" {
					counts[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
				}
			}
		}
		return counts
	}
	a := newAside(metrics)
	peer := func(i int) instance.ID { return instance.ID{Namespace: "made-up", Name: strconv.Itoa(i)} }
	moved, stays := types.NamespacedName{Namespace: "tenant", Name: "moved"}, types.NamespacedName{Namespace: "tenant", Name: "stays"}
	a.note(stays, peer(0))
	for i := range 1000 {
		a.note(moved, peer(i))
		a.note(types.NamespacedName{Namespace: "tenant", Name: strconv.Itoa(i)}, peer(i))
	}
	if got := series(); len(got) != 1000 || got["made-up/999"] != 2 {
		t.Errorf("%d series of 1000 peers, and %v clusters left to the last one, want 2", len(got), got["made-up/999"])
	}
	a.forget(moved)
	for i := range 1000 {
		a.forget(types.NamespacedName{Namespace: "tenant", Name: strconv.Itoa(i)})
	}
	if got := series(); len(got) != 1 || got["made-up/0"] != 1 {
		t.Errorf("got %v, want one cluster that is left to one peer", got)
	}
	a.forget(stays)
	a.forget(stays)
	if got := series(); len(got) != 0 || len(a.counts) != 0 {
		t.Errorf("%d series and %d counts when no cluster is left to anybody", len(got), len(a.counts))
	}
}
