package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/providers/capi"
	"github.com/archelon-io/archelon/test/builder"
)

var (
	now     = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	earlier = metav1.NewTime(now.Add(-time.Hour))
)

func having(status metav1.ConditionStatus, reason, message string) *clusterv1.Cluster {
	cluster := builder.Cluster("default", "one")
	cluster.Status.Conditions = []metav1.Condition{{
		Type: "FleetEngaged", Status: status, Reason: reason, Message: message, LastTransitionTime: earlier,
	}}
	return cluster
}

func of(state capi.State, reason, message string) capi.Status {
	return capi.Status{State: state, Reason: reason, Message: message}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	paused, leaving := having("False", "x", "y"), having("False", "x", "y")
	paused.Spec.Paused = new(true)
	leaving.DeletionTimestamp = &earlier
	plain := builder.Cluster("default", "one")
	for name, tc := range map[string]struct {
		reason  string
		o       Observation
		want    string // "status reason message" of the condition; "none" if nothing is written, "gone" if it is removed
		changed bool   // whether the transition is now
		event   string
	}{
		"NoCluster": {reason: "There is nothing to write to", o: Observation{Ours: true, Member: true}, want: "none"},
		"Foreign": {
			reason: "Another instance says what there is to say",
			o:      Observation{Cluster: plain, Member: true, Status: of(capi.Engaged, "Engaged", "")}, want: "none",
		},
		"Leaving": {reason: "Nobody reads it any more", o: Observation{Cluster: leaving, Ours: true}, want: "none"},
		"Paused": {
			reason: "A paused Cluster is not written to",
			o:      Observation{Cluster: paused, Ours: true, Member: true, Status: of(capi.Engaged, "Engaged", "")}, want: "none",
		},
		"NotMet": {reason: "A Cluster that is not imported gets no condition", o: Observation{Cluster: plain, Ours: true}, want: "none"},
		"NotProvisioned": {
			reason: "It has not begun yet",
			o:      Observation{Cluster: plain, Ours: true, Member: true, Status: of(capi.Pending, "NotProvisioned", "m")}, want: "none",
		},
		"Connecting": {
			reason: "The first connection is no news",
			o:      Observation{Cluster: plain, Ours: true, Member: true, Status: of(capi.Connecting, "WorkloadTimeout", "slow")},
			want:   "False WorkloadTimeout Connecting: slow", changed: true,
		},
		"Syncing": {
			reason: "That the first objects are being received is no news",
			o:      Observation{Cluster: having("False", "WorkloadTimeout", "x"), Ours: true, Member: true, Status: of(capi.Connecting, "Syncing", "m")},
			want:   "none",
		},
		"NotStarted": {
			reason: "Controllers do not work with a cluster that they could not be started for",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true, Member: true, Status: of(capi.Connecting, "EngagementFailing", "log")},
			want:   "False EngagementFailing Connecting: log", changed: true, event: "Warning EngagementFailing",
		},
		"HoldsEverything": {
			reason: "A cluster that sends nothing is not engaged, although it answers probes",
			o:      Observation{Cluster: plain, Ours: true, Member: true, Status: of(capi.Connecting, "KindTimeout", "pods")},
			want:   "False KindTimeout Connecting: pods", changed: true,
		},
		"Begins": {
			reason: "After a restart the condition stays until something is known",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true, Member: true, Status: of(capi.Connecting, "Connecting", "m")},
			want:   "none",
		},
		"Engaged": {
			reason: "It works",
			o:      Observation{Cluster: having("False", "WorkloadTimeout", "x"), Ours: true, Member: true, Status: of(capi.Engaged, "Engaged", "")},
			want:   "True " + capi.EngagedReason + " Engaged", changed: true, event: "Normal Engaged",
		},
		"Settled": {
			reason: "Nothing has changed, so nothing is written",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true, Member: true, Status: of(capi.Engaged, "Engaged", "")},
			want:   "none",
		},
		"Degraded": {
			reason: "Controllers work with it, and a kind is lacking: True, since when it was engaged",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true, Member: true, Status: of(capi.Degraded, "Forbidden", "pods")},
			want:   "True Forbidden Degraded: pods", event: "Warning Forbidden",
		},
		"AnotherMessage": {
			reason: "A message that changes is written and is no news",
			o:      Observation{Cluster: having("True", "Forbidden", "Degraded: a"), Ours: true, Member: true, Status: of(capi.Degraded, "Forbidden", "b")},
			want:   "True Forbidden Degraded: b",
		},
		"Disconnected": {
			reason: "It was there and is not",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true, Member: true, Status: of(capi.Disconnected, "WorkloadUnauthorized", "renew")},
			want:   "False WorkloadUnauthorized Disconnected: renew", changed: true, event: "Warning WorkloadUnauthorized",
		},
		"Refused": {
			reason: "A kubeconfig that is refused needs a person",
			o:      Observation{Cluster: having("False", "WorkloadTimeout", "x"), Ours: true, Member: true, Status: of(capi.Pending, "KubeconfigExecRefused", "exec")},
			want:   "False KubeconfigExecRefused Pending: exec", event: "Warning KubeconfigExecRefused",
		},
		"Left": {
			reason: "A Cluster that is not imported any more loses the condition",
			o:      Observation{Cluster: having("True", "Engaged", "Engaged"), Ours: true}, want: "gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(tc.o, now)
			got, event, changed := "none", "", false
			if p, ok := d.Action.(publish); ok {
				got, changed = published(t, p.condition)
			}
			if changed != tc.changed {
				t.Errorf("%s: that the transition is now is %t", tc.reason, changed)
			}
			if d.Event != nil {
				event = d.Event.Type + " " + d.Event.Reason
			}
			if diff := cmp.Diff([]string{tc.want, tc.event}, []string{got, event}); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// published returns what a condition says, without the URL that all but clusters which work have, and whether its
// transition is now.
func published(t *testing.T, c *metav1.Condition) (text string, changed bool) {
	t.Helper()
	if c == nil {
		return "gone", false
	}
	message, explained := strings.CutSuffix(c.Message, ". See "+docs.Page(docs.FleetEngaged))
	if explained == (c.Reason == capi.EngagedReason) {
		t.Errorf("got %q, want a URL for all but a cluster that works", c.Message)
	}
	return string(c.Status) + " " + c.Reason + " " + message, c.LastTransitionTime.Time.Equal(now)
}
