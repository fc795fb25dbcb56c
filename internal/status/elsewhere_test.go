package status

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestJoin(t *testing.T) {
	records := func() []record {
		return []record{
			{id: "v3/c-aaaaa", namespace: "team-a", name: "one", state: "connected"},
			{id: "v3/c-bbbbb", namespace: "team-a", name: "one", state: "deleting"},
			{id: "v3/c-ccccc", namespace: "team-b", name: "two", state: "waiting"},
		}
	}
	for name, tc := range map[string]struct {
		reason string
		opts   Options
		want   []Cluster
	}{
		"All": {
			reason: "one more of a CAPI cluster that is there is not without one",
			want: []Cluster{
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa", InRancher: "connected"},
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-bbbbb", InRancher: "deleting", ManagementCluster: "east"},
				{Namespace: "team-a", Name: "lost", RancherCluster: "v3/c-zzzzz", InRancher: "missing"},
				{Namespace: "team-a", Name: "new"},
				{Namespace: "team-b", Name: "two", RancherCluster: "v3/c-ccccc", InRancher: "waiting", ManagementCluster: "east", CAPICluster: "gone"},
			},
		},
		"Namespace": {
			reason: "Rancher clusters of others are not asked for", opts: Options{Namespace: "team-a"},
			want: []Cluster{
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa", InRancher: "connected"},
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-bbbbb", InRancher: "deleting", ManagementCluster: "east"},
				{Namespace: "team-a", Name: "lost", RancherCluster: "v3/c-zzzzz", InRancher: "missing"},
				{Namespace: "team-a", Name: "new"},
			},
		},
		"Selector": {
			reason: "who has no CAPI cluster is not known", opts: Options{Selector: "a=b"},
			want: []Cluster{
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa", InRancher: "connected"},
				{Namespace: "team-a", Name: "lost", RancherCluster: "v3/c-zzzzz", InRancher: "missing"},
				{Namespace: "team-a", Name: "new"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clusters := []Cluster{
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa"},
				{Namespace: "team-a", Name: "lost", RancherCluster: "v3/c-zzzzz"}, {Namespace: "team-a", Name: "new"},
			}
			got := (&view{opts: tc.opts}).join(clusters, records(), "east", capiGone)
			sorted := func(all []Cluster) map[string]Cluster {
				found := map[string]Cluster{}
				for _, c := range all {
					found[c.Namespace+"/"+c.Name+"/"+c.RancherCluster] = c
				}
				return found
			}
			if diff := cmp.Diff(sorted(tc.want), sorted(got)); diff != "" || len(got) != len(tc.want) {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

func TestRecordOf(t *testing.T) {
	is := func(kind string) managementv3.ClusterCondition {
		return managementv3.ClusterCondition{Type: managementv3.ClusterConditionType(kind), Status: corev1.ConditionTrue}
	}
	now := metav1.Now()
	for want, cluster := range map[string]*managementv3.Cluster{
		"waiting":      {},
		"connected":    {Status: managementv3.ClusterStatus{Conditions: []managementv3.ClusterCondition{is("Connected"), is("Waiting")}}},
		"disconnected": {Status: managementv3.ClusterStatus{Conditions: []managementv3.ClusterCondition{is("Waiting")}}},
		"deleting": {
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now},
			Status:     managementv3.ClusterStatus{Conditions: []managementv3.ClusterCondition{is("Connected")}},
		},
	} {
		if got := recordOf(cluster).state; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTablesOfManagementClusters(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ago := metav1.NewTime(now.Add(-time.Hour))
	found := list{
		Items: []Cluster{
			{ManagementCluster: "east", Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa", InRancher: "connected", Imported: "True", Reason: "Imported"},
			{ManagementCluster: "west", Namespace: "team-a", Name: "one", RancherCluster: "v3/c-bbbbb", InRancher: "connected", CAPICluster: "unseen"},
		},
		ManagementClusters: []ManagementCluster{
			{DisplayName: "east", Secret: "east-1", Answers: true, Reason: "Engaged", Said: "Forbidden", SaidAt: &ago, CAPIClusters: new(1), RancherClusters: 1},
			{DisplayName: "west", Secret: "west-1", Reason: "Unreachable", Message: "no\nanswer", RancherClusters: 1},
		},
	}
	want := "" +
		"MANAGEMENT CLUSTER   NAMESPACE   NAME   IMPORTED   REASON       SINCE   RANCHER CLUSTER   IN RANCHER   AGENT   INSTANCE\n" +
		"east                 team-a      one    True       Imported     -       v3/c-aaaaa        connected    -       -\n" +
		"west                 team-a      one    -          (not seen)   -       v3/c-bbbbb        connected    -       -\n" +
		"\n" +
		"MANAGEMENT CLUSTER   SECRET   ANSWERS   STATE         HUB SAID            CAPI CLUSTERS   RANCHER CLUSTERS   MESSAGE\n" +
		"east                 east-1   yes       Engaged       Forbidden 60m ago   1               1                  -\n" +
		"west                 west-1   no        Unreachable   -                   -               1                  no answer\n"
	out := &bytes.Buffer{}
	p := &printer{headers: true, out: out, now: func() time.Time { return now }, many: true, inRancher: true}
	if err := p.all(found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestOptionsElsewhereNameWhatIsWrong(t *testing.T) {
	for name, opts := range map[string]Options{
		"Both":    {RancherKubeconfig: "a/b", ManagementClustersNamespace: "a", Timeout: 1},
		"Watch":   {RancherKubeconfig: "a/b", Watch: true, Timeout: 1},
		"Timeout": {ManagementClustersNamespace: "a"},
		"Secret":  {RancherKubeconfig: "a", Timeout: 1},
	} {
		if err := runElsewhere(t.Context(), nil, nil, opts, nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
