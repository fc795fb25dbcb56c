package condition_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/condition"
)

// A cache that is late must not have the same Event published twice.
func TestWhatWasWrittenCountsUntilTheCacheHasIt(t *testing.T) {
	t.Parallel()
	var written condition.Written
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "prod", ResourceVersion: "7"}}
	cluster.SetConditions([]metav1.Condition{{Type: "Tested", Reason: "Before"}})
	written.Note(cluster, &metav1.Condition{Type: "Tested", Reason: "After"})
	if got := written.Of(cluster, "Tested"); got == nil || got.Reason != "After" {
		t.Errorf("the cache has not moved: got %v", got)
	}
	cluster.ResourceVersion = "8"
	for range 2 {
		if got := written.Of(cluster, "Tested"); got == nil || got.Reason != "Before" {
			t.Errorf("the cache has moved: got %v", got)
		}
	}
	cluster.ResourceVersion = "7"
	if got := written.Of(cluster, "Tested"); got == nil || got.Reason != "Before" {
		t.Errorf("what the cache has had is forgotten: got %v", got)
	}
}
