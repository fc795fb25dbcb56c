package fleetcluster

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/builder"
)

func fleetWith(labels map[string]string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c-abcde", Labels: labels},
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	quick := map[string]string{
		"cluster-api.cattle.io/clusterclass-name": "quick", "cluster-api.cattle.io/clusterclass-namespace": "tenant",
		"team": "blue",
	}
	going := fleetWith(nil)
	now := metav1.Now()
	going.DeletionTimestamp = &now
	classless := func(c *clusterv1.Cluster) { c.Spec.Topology = clusterv1.Topology{} }
	const labels = "label Fleet Cluster fleet-default/c-abcde with ClusterClass "
	const remove = "remove the labels of a ClusterClass from Fleet Cluster fleet-default/c-abcde"
	for name, tc := range map[string]struct {
		reason string
		change func(*clusterv1.Cluster)
		found  metav1.PartialObjectMetadata
		want   []string
		labels map[string]string
	}{
		"New": {
			reason: "Rancher has just created it",
			found:  fleetWith(map[string]string{"team": "blue"}), want: []string{labels + "tenant/quick"}, labels: quick,
		},
		"NoLabels": {reason: "there may be none", found: fleetWith(nil), want: []string{labels + "tenant/quick"}},
		"Settled":  {reason: "a settled Fleet Cluster costs no write", found: fleetWith(quick)},
		"Namespace": {
			reason: "the class is in another namespace",
			change: func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Namespace = "classes" },
			found:  fleetWith(quick), want: []string{labels + "classes/quick"},
		},
		"Gone": {
			reason: "without a class no label may stay", change: classless,
			found: fleetWith(quick), want: []string{remove}, labels: map[string]string{"team": "blue"},
		},
		"None": {reason: "there was none", change: classless, found: fleetWith(map[string]string{"team": "blue"})},
		"Long": {
			reason: "a label does not hold the name",
			change: func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = strings.Repeat("x", 64) },
			found:  fleetWith(quick), want: []string{remove}, labels: map[string]string{"team": "blue"},
		},
		"Paused": {
			reason: "nothing is done for one that is paused",
			change: func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, found: fleetWith(nil),
		},
		"Deleting": {
			reason: "it goes with its Rancher cluster",
			change: func(c *clusterv1.Cluster) { c.DeletionTimestamp = &now }, found: fleetWith(nil),
		},
		"Going": {reason: "it needs no labels any more", found: going},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := builder.Cluster("tenant", "prod")
			cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}}
			if tc.change != nil {
				tc.change(cluster)
			}
			var got []string
			for _, action := range Decide(Observation{Cluster: cluster, Fleet: []metav1.PartialObjectMetadata{tc.found}}) {
				got = append(got, action.String())
				if l, ok := action.(label); ok && tc.labels != nil && !maps.Equal(tc.labels, l.after) {
					t.Errorf("%s: got labels %v, want %v", tc.reason, l.after, tc.labels)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	if got := Decide(Observation{Fleet: []metav1.PartialObjectMetadata{fleetWith(nil)}}); len(got) != 0 {
		t.Errorf("without a Cluster of this instance it wants %s", got)
	}
}
