package importer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestPatienceLeft(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(age time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-age)} }
	for name, test := range map[string]struct {
		reason  string
		deleted *metav1.Time
		want    time.Duration
	}{
		"Kept":      {reason: "nobody waits for it"},
		"Now":       {reason: "the webhook gets the time of a restart", deleted: at(0), want: 30 * time.Second},
		"Soon":      {reason: "the time goes by", deleted: at(10 * time.Second), want: 20 * time.Second},
		"Late":      {reason: "the CAPI cluster must be able to leave", deleted: at(time.Minute)},
		"ClockSkew": {reason: "clocks differ a little, and time ends that", deleted: at(-10 * time.Second), want: 40 * time.Second},
		"ClockLie":  {reason: "by no clock a deletion is held up for long", deleted: at(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.DeletionTimestamp = test.deleted
			if got := patienceLeft(cluster, now); got != test.want {
				t.Errorf("patienceLeft() = %s, want %s: %s", got, test.want, test.reason)
			}
		})
	}
}
