package status

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestOf(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	condition := func(kind, status, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: since,
		}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		conditions  []metav1.Condition
		want        Cluster
	}{
		"Unseen": {want: Cluster{}},
		"Imported": {
			annotations: map[string]string{"archelon.io/rancher-cluster": "v3/c-abcde", "archelon.io/instance": "system/archelon"},
			conditions: []metav1.Condition{
				condition("RancherImported", "True", "Imported", ""), condition("FleetEngaged", "True", "Engaged", ""),
			},
			want: Cluster{
				Imported: "True", Reason: "Imported", Since: &since, RancherCluster: "v3/c-abcde", Agent: "connected",
				Instance: "system/archelon", Fleet: "Engaged",
			},
		},
		"Installing": {
			conditions: []metav1.Condition{condition("RancherImported", "False", "ConnectingAgent", "m")},
			want:       Cluster{Imported: "False", Reason: "ConnectingAgent", Message: "m", Since: &since, Agent: "installing"},
		},
		"Waiting": {
			conditions: []metav1.Condition{condition("RancherImported", "False", "WaitingForAgent", "")},
			want:       Cluster{Imported: "False", Reason: "WaitingForAgent", Since: &since, Agent: "waiting"},
		},
		"Explained": {
			conditions: []metav1.Condition{condition("RancherImported", "False", "AgentPodsRefused", "")},
			want:       Cluster{Imported: "False", Reason: "AgentPodsRefused", Since: &since, Agent: "waiting"},
		},
		"Disconnected": {
			conditions: []metav1.Condition{condition("RancherImported", "False", "AgentDisconnected", "")},
			want:       Cluster{Imported: "False", Reason: "AgentDisconnected", Since: &since, Agent: "disconnected"},
		},
		"Not selected": {
			conditions: []metav1.Condition{condition("RancherImported", "False", "NotSelected", "")},
			want:       Cluster{Imported: "False", Reason: "NotSelected", Since: &since},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "prod", Annotations: tc.annotations},
				Status:     clusterv1.ClusterStatus{Conditions: tc.conditions},
			}
			tc.want.Namespace, tc.want.Name = "team-a", "prod"
			if diff := cmp.Diff(tc.want, Of(cluster)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPrinter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	since := metav1.NewTime(now.Add(-3 * time.Hour))
	clusters := []Cluster{
		{
			Namespace: "team-a", Name: "prod", Imported: "True", Reason: "Imported", Since: &since, RancherCluster: "v3/c-abcde",
			Agent: "connected", Delivery: "manual", Instance: "system/archelon",
		},
		// Whatever a tenant has written stays in its cell.
		{Namespace: "team-b", Name: "hostile", RancherCluster: "\x1b[2J\nteam-c\u202e", Message: "two\nlines"},
	}
	for name, tc := range map[string]struct {
		form    string
		headers bool
		want    string
	}{
		"Table": {"", true, "" +
			"NAMESPACE   NAME      IMPORTED   REASON     SINCE   RANCHER CLUSTER   AGENT       INSTANCE\n" +
			"team-a      prod      True       Imported   3h      v3/c-abcde        connected   system/archelon\n" +
			"team-b      hostile   -          -          -       \ufffd[2J team-c\ufffd      -           -\n" +
			"team-b   hostile   -     (deleted)   -     \ufffd[2J team-c\ufffd   -     -\n"},
		"Wide": {"wide", false, "" +
			"team-a   prod      True   Imported   3h    v3/c-abcde     connected   system/archelon   manual   -     -\n" +
			"team-b   hostile   -      -          -     \ufffd[2J team-c\ufffd   -           -                 -        -     two lines\n" +
			"team-b   hostile   -     (deleted)   -     \ufffd[2J team-c\ufffd   -     -     -     -     two lines\n"},
		"JSON": {"json", true, `{
  "kind": "ClusterStatusList",
  "apiVersion": "archelon.io/v1alpha1",
  "items": [
    {
      "namespace": "team-a",
      "name": "prod",
      "imported": "True",
      "reason": "Imported",
      "since": "2026-11-22T09:00:00Z",
      "rancherCluster": "v3/c-abcde",
      "agent": "connected",
      "delivery": "manual",
      "instance": "system/archelon"
    },
    {
      "namespace": "team-b",
      "name": "hostile",
      "message": "two\nlines",
      "rancherCluster": "\u001b[2J\nteam-c` + "\u202e" + `"
    }
  ]
}
{
  "namespace": "team-b",
  "name": "hostile",
  "message": "two\nlines",
  "rancherCluster": "\u001b[2J\nteam-c` + "\u202e" + `",
  "deleted": true
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			p := &printer{form: tc.form, headers: tc.headers, out: out, now: func() time.Time { return now }}
			if err := p.all(list{Items: clusters}); err != nil {
				t.Fatal(err)
			}
			gone := clusters[1]
			gone.Deleted = true
			if err := p.one(gone); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"Output":   {Options{Output: "xml"}, `--output is "xml"; it can be wide, json or yaml`},
		"Selector": {Options{Selector: "a in"}, "--selector: unable to parse requirement: found '' expected: '('"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), nil, tc.opts, nil, nil)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	found := []Cluster{{Namespace: "team-a", Name: "prod"}, {Namespace: "team-a", Name: "test"}}
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"None":  {Options{}, ""},
		"There": {Options{Names: []string{"prod", "test"}}, ""},
		"Slip":  {Options{Names: []string{"prdo"}, Namespace: "team-a"}, `no CAPI cluster "prdo" found in namespace team-a. Did you mean prod?`},
		"Far":   {Options{Names: []string{"production-eu"}}, `no CAPI cluster "production-eu" found`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.opts.missing(found); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if o := (Options{Names: []string{"prod"}}); !o.shows(found[0]) || o.shows(found[1]) {
		t.Error("the names do not choose")
	}
}
