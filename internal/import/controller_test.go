package importer

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// A Rancher has the Rancher clusters of several management clusters. Rancher copies labels to what it makes of one,
// so it holds for both kinds.
func TestInstancesSeeTheRancherClustersOfTheirManagementCluster(t *testing.T) {
	carried := func(origin string) labels.Set {
		set := labels.Set{archelonv1.OwnedLabel: ""}
		if origin != "" {
			set[archelonv1.ManagementClusterLabel] = origin
		}
		return set
	}
	for own, kinds := range map[types.UID]int{"": 2, "here": 1} {
		seen := 0
		for _, watch := range Controller(true, []string{"turtles"}, own, nil).Watches(shard.Scope{}) {
			if watch.By.Label == nil || watch.By.Label.Matches(labels.Set{}) || !watch.By.Label.Matches(carried(string(own))) {
				continue // It is no Rancher cluster.
			}
			seen++
			for _, other := range []string{"", "here", "there"} {
				if other != string(own) && watch.By.Label.Matches(carried(other)) {
					t.Errorf("an instance of %q sees a %T of %q", own, watch.Object, other)
				}
			}
		}
		if seen != kinds {
			t.Errorf("an instance of %q sees %d kinds of its Rancher clusters, want %d", own, seen, kinds)
		}
	}
}
