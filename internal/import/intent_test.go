package importer

import (
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/outcome"
)

// testStrategy stands for a strategy where only its identity matters.
type testStrategy struct {
	Strategy
	kind string
}

func (s testStrategy) Kind() string { return s.kind }

func (s testStrategy) Nature() Nature {
	if s.kind == "v1" {
		return v1Strategy{}.Nature()
	}
	return v3Strategy{}.Nature()
}

func testRecord(kind, name string, change ...func(client.Object)) record {
	object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"cluster-api.cattle.io/owned":                 "",
		"cluster-api.cattle.io/capi-cluster-owner":    "prod",
		"cluster-api.cattle.io/capi-cluster-owner-ns": "tenant",
		"archelon.io/capi-cluster-uid":                "uid-1",
	}}}
	for _, c := range change {
		c(object)
	}
	return record{Object: object, strategy: testStrategy{kind: kind}}
}

func unlabelled(key string) func(client.Object) {
	return func(o client.Object) { delete(o.GetLabels(), key) }
}

func terminating(o client.Object) {
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	o.SetFinalizers([]string{"archelon.io/rancher-import"})
}

func TestIntend(t *testing.T) {
	finalizer := func(c *clusterv1.Cluster) { c.Finalizers = []string{"archelon.io/rancher-import"} }
	deleting := func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	tests := map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		records []record
		want    string
		intent  intent
	}{
		"Stranger":              {reason: "no label, no record", cluster: testCluster(), want: "", intent: intentIdle},
		"Refused":               {reason: "false on a cluster that is not imported", cluster: testCluster(), want: "false", intent: intentIdle},
		"Selected":              {reason: "true imports", cluster: testCluster(), want: "true", intent: intentImport},
		"LabelRemoved":          {reason: "no label leaves an import as it is", cluster: testCluster(finalizer), want: "", intent: intentImport},
		"LabelRemovedToo":       {reason: "a record counts even if annotation and finalizer were lost", cluster: testCluster(), records: []record{testRecord("v3", "c-1")}, want: "", intent: intentImport},
		"RecordGoing":           {reason: "a record that is going does not", cluster: testCluster(), records: []record{testRecord("v3", "c-1", terminating)}, want: "", intent: intentIdle},
		"ForeignRancherCluster": {reason: "nor does one of another cluster", cluster: testCluster(func(c *clusterv1.Cluster) { c.UID = "uid-2" }), records: []record{testRecord("v3", "c-1")}, want: "", intent: intentIdle},
		"Unimport":              {reason: "false un-imports", cluster: testCluster(finalizer), want: "false", intent: intentUnimport},
		"UnimportClaimed":       {reason: "also what was only claimed", cluster: testCluster(annotated("archelon.io/rancher-cluster", "v3/c-1")), want: "false", intent: intentUnimport},
		"Deleting":              {reason: "deletion comes before the label", cluster: testCluster(finalizer, deleting), want: "true", intent: intentDelete},
		"DeletingUnlabeled":     {reason: "and needs none", cluster: testCluster(finalizer, deleting), want: "", intent: intentDelete},
		"Paused":                {reason: "a pause comes first, as in CAPI", cluster: testCluster(finalizer, deleting, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), want: "true", intent: intentPause},
		"PausedAnnotation":      {reason: "also by annotation", cluster: testCluster(annotated("cluster.x-k8s.io/paused", "")), want: "true", intent: intentPause},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.want != "" {
				tc.cluster.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": tc.want}
			}
			o := seen(tc.cluster, tc.records...)
			o.intent = intentUnknown
			if got := (Rules{}).Decide(*o, time.Unix(1, 0)).Intent; got != tc.intent {
				t.Errorf("%s: got intent %s, want %s", tc.reason, got, tc.intent)
			}
		})
	}
}

// A record that somebody took the UID off is still known by what nobody else writes.
func TestMadeFor(t *testing.T) {
	const name, namespace, uid = "cluster-api.cattle.io/capi-cluster-owner", "cluster-api.cattle.io/capi-cluster-owner-ns", "archelon.io/capi-cluster-uid"
	held := func(o client.Object) { o.SetFinalizers([]string{"archelon.io/rancher-import"}) }
	claimed := annotated("archelon.io/rancher-cluster", "v3/c-1")
	for label, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		record  record
		want    bool
	}{
		"UID":              {testCluster(), testRecord("v3", "c-1"), true},
		"OtherUID":         {testCluster(claimed, func(c *clusterv1.Cluster) { c.UID = "uid-2" }), testRecord("v3", "c-1", held), false},
		"NoUID":            {testCluster(claimed), testRecord("v3", "c-1", held, unlabelled(uid)), true},
		"NoLabels":         {testCluster(claimed), testRecord("v3", "c-1", held, unlabelled(uid), unlabelled(name), unlabelled(namespace)), true},
		"NoUIDNotHeld":     {testCluster(claimed), testRecord("v3", "c-1", unlabelled(uid)), false},
		"NoUIDNotClaimed":  {testCluster(), testRecord("v3", "c-1", held, unlabelled(uid)), false},
		"NoUIDOtherName":   {testCluster(claimed), testRecord("v3", "c-2", held, unlabelled(uid)), false},
		"NoUIDOfAnother":   {testCluster(claimed, func(c *clusterv1.Cluster) { c.Name = "other" }), testRecord("v3", "c-1", held, unlabelled(uid)), false},
		"NoUIDOfNamespace": {testCluster(claimed, func(c *clusterv1.Cluster) { c.Namespace = "other" }), testRecord("v3", "c-1", held, unlabelled(uid)), false},
	} {
		t.Run(label, func(t *testing.T) {
			if got := tc.record.madeFor(tc.cluster); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestCheckNeighbours(t *testing.T) {
	const name, namespace, uid = "cluster-api.cattle.io/capi-cluster-owner", "cluster-api.cattle.io/capi-cluster-owner-ns", "archelon.io/capi-cluster-uid"
	turtle := func(o client.Object) { o.SetFinalizers([]string{"capicluster.turtles.cattle.io"}) }
	claimed := annotated("archelon.io/rancher-cluster", "v3/c-1")
	tests := map[string]struct {
		reason     string
		cluster    *clusterv1.Cluster
		records    []record
		wantReason string
	}{
		"Alone":             {reason: "nobody is there", cluster: testCluster()},
		"Own":               {reason: "its own record", cluster: testCluster(claimed), records: []record{testRecord("v3", "c-1")}},
		"OtherKind":         {reason: "a record of the other strategy is replaced, not refused", cluster: testCluster(claimed), records: []record{testRecord("v1", "prod-capi")}},
		"Two":               {reason: "never take the first", cluster: testCluster(claimed), records: []record{testRecord("v3", "c-1"), testRecord("v3", "c-2")}, wantReason: "DuplicateRancherClusters"},
		"TwoOneGoing":       {reason: "one that is going does not count", cluster: testCluster(claimed), records: []record{testRecord("v3", "c-1"), testRecord("v3", "c-2", terminating)}},
		"OtherUID":          {reason: "a record of another incarnation", cluster: testCluster(func(c *clusterv1.Cluster) { c.UID = "uid-2" }), records: []record{testRecord("v3", "c-1")}, wantReason: "ForeignRancherCluster"},
		"NoUID":             {reason: "a record that somebody else made", cluster: testCluster(), records: []record{testRecord("v3", "c-1", unlabelled(uid))}, wantReason: "ForeignRancherCluster"},
		"TurtlesCluster":    {reason: "Turtles holds the CAPI cluster", cluster: testCluster(func(c *clusterv1.Cluster) { turtle(c) }), wantReason: "ManagedByTurtles"},
		"TurtlesRecord":     {reason: "Turtles made the record", cluster: testCluster(), records: []record{testRecord("v3", "c-1", unlabelled(uid), turtle)}, wantReason: "ManagedByTurtles"},
		"TurtlesV1":         {reason: "Turtles' v1 records have no owner labels", cluster: testCluster(), records: []record{testRecord("v1", "prod-capi", unlabelled(uid), unlabelled(name), unlabelled(namespace))}, wantReason: "ManagedByTurtles"},
		"OwnHalf":           {reason: "its own record lost a label", cluster: testCluster(claimed), records: []record{testRecord("v3", "c-1", unlabelled(namespace))}, wantReason: "IncompleteOwnerLabels"},
		"ForeignHalf":       {reason: "it may stand for this cluster", cluster: testCluster(), records: []record{testRecord("v3", "c-9", unlabelled(namespace), unlabelled(uid))}, wantReason: "IncompleteOwnerLabels"},
		"ForeignHalfBeside": {reason: "it cannot, when this cluster has a record", cluster: testCluster(claimed), records: []record{testRecord("v3", "c-1"), testRecord("v3", "c-9", unlabelled(namespace), unlabelled(uid))}},
		"Provisioned": {reason: "Rancher provisioned it", cluster: testCluster(func(c *clusterv1.Cluster) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "prod"}}
		}), wantReason: "ProvisionedByRancher"},
	}
	for label, tc := range tests {
		t.Run(label, func(t *testing.T) {
			d := &deciding{Rules: Rules{Active: testStrategy{kind: "v3"}, Others: []Strategy{testStrategy{kind: "v1"}}}, Observation: seen(tc.cluster, tc.records...)}
			got := d.checkNeighbours().Outcome
			if got.Reason != tc.wantReason || (tc.wantReason != "") != (got.Kind == outcome.KindStall) {
				t.Errorf("%s: got %s %q (%s), want %q", tc.reason, got.Kind, got.Reason, got.Message, tc.wantReason)
			}
		})
	}
}
