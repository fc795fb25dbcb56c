package importer

import (
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// A CAPI cluster that names the Rancher cluster of another management cluster waits for a person, and whoever names a
// stranger's for nobody.
func TestMoved(t *testing.T) {
	of := func(origin, namespace, name string) *managementv3.Cluster {
		labels := map[string]string{"cluster-api.cattle.io/capi-cluster-owner": name, "cluster-api.cattle.io/capi-cluster-owner-ns": namespace}
		if origin != "" {
			labels["archelon.io/management-cluster"] = origin
		}
		return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", Labels: labels}}
	}
	cluster := testCluster()
	own := func(origin string) *managementv3.Cluster { return of(origin, cluster.Namespace, cluster.Name) }
	going := own("east")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/held"}
	for name, tc := range map[string]struct {
		reason  string
		record  *managementv3.Cluster
		origin  string
		claimed bool
		stops   bool
		reads   int
	}{
		"OfAnother":    {reason: "it was moved here", record: own("east"), origin: "west", stops: true, reads: 1},
		"OfNone":       {reason: "it comes from an installation beside Rancher", record: own(""), origin: "west", stops: true, reads: 1},
		"Ours":         {reason: "the cache does not show it yet", record: own("west"), origin: "west", reads: 1},
		"Gone":         {reason: "it is created anew", record: of("east", "else", "where"), origin: "west", reads: 1},
		"Stranger":     {reason: "whoever names a stranger's gets another name", record: of("east", "other", cluster.Name), origin: "west", reads: 1},
		"Going":        {reason: "it is awaited elsewhere", record: going, origin: "west", reads: 1},
		"JustClaimed":  {reason: "this run has made the name up", record: own("east"), origin: "west", claimed: true},
		"OneOfCluster": {reason: "Rancher is in the management cluster", record: own("east")},
	} {
		t.Run(name, func(t *testing.T) {
			named := testCluster()
			annotated(recordKey, "v3/c-abcde")(named)
			b := newBench(t, instance.Claim{}, tc.record)
			b.Active, b.Origin = v3Strategy{}, "west"
			if tc.origin == "" {
				b.Origin = ""
			}
			live := &counted{Reader: b.Client}
			b.APIReader = live
			o := seen(named)
			o.claimed = tc.claimed
			out := b.obey(t.Context(), o, (*deciding).checkNamesake).Outcome
			if stopped := out.Kind == outcome.KindPoll && out.Reason == "ForeignRancherCluster"; stopped != tc.stops || !stopped && !out.IsDone() || live.reads != tc.reads {
				t.Errorf("%s: got %s %s %q after %d requests", tc.reason, out.Kind, out.Reason, out.Message, live.reads)
			}
		})
	}
}
