package outage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

const self = "archelon-system/archelon"

func TestDecide(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scope, err := shard.New(nil, []string{"excluded"})
	if err != nil {
		t.Fatal(err)
	}
	r := rules{after: 10 * time.Minute, self: self, scope: scope}
	for name, tc := range map[string]struct {
		reason string
		change func(*clusterv1.Cluster)
		lasted time.Duration
		want   bool
	}{
		"Deleted":   {reason: "it waits for Rancher alone", lasted: r.after, want: true},
		"TooEarly":  {reason: "Rancher may only be restarting", lasted: r.after - 1},
		"Answered":  {reason: "the import deletes the Rancher cluster"},
		"ClockBack": {reason: "a clock that was set back releases nothing", lasted: -time.Hour},
		"Living": {
			reason: "nobody deletes it", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.DeletionTimestamp = nil },
		},
		"Released": {
			reason: "another finalizer holds it", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} },
		},
		"OfAnother": {
			reason: "another instance works on it", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.Annotations[archelonv1.InstanceAnnotation] = "elsewhere/other" },
		},
		"OfNobody": {
			reason: "it names no instance", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { delete(c.Annotations, archelonv1.InstanceAnnotation) },
		},
		"OutOfScope": {
			reason: "the namespace is another instance's", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.Namespace = "excluded" },
		},
		"Paused": {
			reason: "it may be on its way to another management cluster", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) },
		},
		"PausedByAnnotation": {
			reason: "as well", lasted: time.Hour,
			change: func(c *clusterv1.Cluster) { c.Annotations[clusterv1.PausedAnnotation] = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team-a", Name: "prod", DeletionTimestamp: &metav1.Time{Time: began},
				Finalizers: []string{archelonv1.ImportFinalizer},
				Annotations: map[string]string{
					archelonv1.InstanceAnnotation: self, archelonv1.RecordAnnotation: "v3/c-x7k2p",
				},
			}}
			if tc.change != nil {
				tc.change(&cluster)
			}
			got := r.decide(observation{
				now: began.Add(tc.lasted), answered: began, clusters: []clusterv1.Cluster{cluster},
			})
			if (len(got) == 1) != tc.want {
				t.Fatalf("%s: got %d releases", tc.reason, len(got))
			}
			if tc.want && got[0].rancherCluster != "v3/c-x7k2p" {
				t.Errorf("the Rancher cluster that stays is %q", got[0].rancherCluster)
			}
		})
	}
}

func TestNote(t *testing.T) {
	r := rules{after: 10 * time.Minute}
	for name, tc := range map[string]struct{ rancherCluster, want string }{
		"Named": {"v3/c-x7k2p", `Rancher has not answered for 10m0s, so this Cluster is deleted without it. ` +
			`Rancher cluster "v3/c-x7k2p" stays in Rancher: ask the administrator of Rancher to delete it there`},
		"None": {"", `Rancher has not answered for 10m0s, so this Cluster is deleted without it. ` +
			`If it has a Rancher cluster, that stays in Rancher: ask the administrator of Rancher to delete it there`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, r.note(tc.rancherCluster)); diff != "" {
				t.Error(diff)
			}
		})
	}
	// The API server accepts 1,024 bytes.
	if got := r.note(strings.Repeat("\x00", 10000)); len(got) > 1024 {
		t.Errorf("a tenant makes a note of %d bytes", len(got))
	}
}
