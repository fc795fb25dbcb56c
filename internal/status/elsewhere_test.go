package status

import (
	"testing"

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
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-bbbbb", InRancher: "deleting"},
				{Namespace: "team-a", Name: "lost", RancherCluster: "v3/c-zzzzz", InRancher: "missing"},
				{Namespace: "team-a", Name: "new"},
				{Namespace: "team-b", Name: "two", RancherCluster: "v3/c-ccccc", InRancher: "waiting", CAPICluster: "gone"},
			},
		},
		"Namespace": {
			reason: "Rancher clusters of others are not asked for", opts: Options{Namespace: "team-a"},
			want: []Cluster{
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-aaaaa", InRancher: "connected"},
				{Namespace: "team-a", Name: "one", RancherCluster: "v3/c-bbbbb", InRancher: "deleting"},
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
			got := (&view{opts: tc.opts}).join(clusters, records())
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

func TestOptionsElsewhereNameWhatIsWrong(t *testing.T) {
	for name, opts := range map[string]Options{
		"Watch":   {RancherKubeconfig: "a/b", Watch: true, Timeout: 1},
		"Timeout": {RancherKubeconfig: "a/b"},
		"Secret":  {RancherKubeconfig: "a", Timeout: 1},
	} {
		if err := runElsewhere(t.Context(), nil, nil, opts, nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
