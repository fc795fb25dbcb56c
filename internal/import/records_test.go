package importer

import (
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSplitID(t *testing.T) {
	r := Rules{Active: testStrategy{kind: "v3"}, Others: []Strategy{testStrategy{kind: "v1"}}}
	for name, test := range map[string]struct {
		reason, id string
		kind, want string
	}{
		"Active":    {reason: "of the active strategy", id: "v3/c-abcde", kind: "v3", want: "c-abcde"},
		"Other":     {reason: "of another strategy", id: "v1/prod-capi", kind: "v1", want: "prod-capi"},
		"None":      {reason: "the annotation is not there"},
		"NoName":    {reason: "a kind alone", id: "v3/"},
		"NoKind":    {reason: "a name alone", id: "prod-capi"},
		"Unknown":   {reason: "a kind that is not known", id: "v2/prod-capi"},
		"Namespace": {reason: "a slash cannot be in a name", id: "v1/tenant-a/prod-capi"},
		"Percent":   {reason: "nor can a percent sign", id: "v1/prod%2fcapi"},
		"Parent":    {reason: "nor can it be a way up", id: "v1/.."},
	} {
		t.Run(name, func(t *testing.T) {
			strategy, got, ok := r.splitID(test.id)
			if ok != (test.want != "") || got != test.want || ok && strategy.Kind() != test.kind {
				t.Errorf("splitID(%q) = %v, %q, %t; want a %s named %q: %s", test.id, strategy, got, ok, test.kind, test.want, test.reason)
			}
		})
	}
}

func TestStands(t *testing.T) {
	v1Record := func(name, uid string) record {
		object := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, Labels: map[string]string{"archelon.io/capi-cluster-uid": uid}}}
		return record{Object: object, strategy: testStrategy{kind: "v1"}}
	}
	administrated := map[string]string{"provisioning.cattle.io/administrated": "false"}
	madeFrom := func(namespace, name string) map[string]string {
		return map[string]string{
			"provisioning.cattle.io/administrated":    "false",
			"objectset.rio.cattle.io/owner-namespace": namespace, "objectset.rio.cattle.io/owner-name": name,
		}
	}
	for name, test := range map[string]struct {
		reason      string
		record      record
		name        string
		uid         string
		annotations map[string]string
		want        bool
	}{
		"Itself":    {reason: "a v3 record", record: testRecord("v3", "c-bcdfg"), name: "c-bcdfg", want: true},
		"Made":      {reason: "Rancher says from what it made it", record: v1Record("prod-capi", "uid-1"), name: "c-m-1", uid: "uid-1", annotations: madeFrom("tenant", "prod-capi"), want: true},
		"Restored":  {reason: "the record was attached to a new CAPI cluster, the v3 Cluster follows", record: v1Record("prod-capi", "uid-2"), name: "c-m-1", uid: "uid-1", annotations: madeFrom("tenant", "prod-capi"), want: true},
		"Elsewhere": {reason: "made from a record of another tenant", record: v1Record("prod-capi", "uid-1"), name: "c-m-1", annotations: madeFrom("other", "prod-capi")},
		"Another":   {reason: "made from another record", record: v1Record("prod-capi", "uid-1"), name: "c-m-1", uid: "uid-1", annotations: madeFrom("tenant", "test-capi")},
		"Adopted":   {reason: "Turtles labelled it with no UID", record: v1Record("prod-capi", "uid-1"), name: "c-m-1", annotations: administrated, want: true},
		"Labelled":  {reason: "it has our UID", record: v1Record("prod-capi", "uid-1"), name: "c-m-1", uid: "uid-1", want: true},
		"Victim":    {reason: "the v3 Cluster of somebody, which the name of the record leads to", record: v1Record("c-vvvvv", "uid-1"), name: "c-vvvvv"},
		"Marked":    {reason: "the same, which got our labels in whatever way", record: v1Record("c-vvvvv", "uid-1"), name: "c-vvvvv", uid: "uid-1"},
		"Imported":  {reason: "the record of another CAPI cluster", record: v1Record("c-vvvvv", "uid-1"), name: "c-vvvvv", uid: "uid-2"},
		"Foreign":   {reason: "made for another CAPI cluster", record: v1Record("c-vvvvv", "uid-1"), name: "c-vvvvv", uid: "uid-2", annotations: administrated},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: test.name, Annotations: test.annotations}}
			if test.uid != "" {
				cluster.Labels = map[string]string{"archelon.io/capi-cluster-uid": test.uid}
			}
			if got := test.record.stands(cluster); got != test.want {
				t.Errorf("stands() = %t, want %t: %s", got, test.want, test.reason)
			}
		})
	}
}

// leading is a strategy whose records lead to the named v3 Cluster.
type leading struct {
	testStrategy
	to string
}

func (s leading) ManagementName(client.Object) string { return s.to }

// What a v1 record leads to is no record, so that it is not deleted as one, also where both have the same name.
func TestSplitDerived(t *testing.T) {
	v1Record := record{
		Object:   &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c-vvvvv"}},
		strategy: leading{testStrategy: testStrategy{kind: "v1"}, to: "c-vvvvv"},
	}
	behind, apart := testRecord("v3", "c-vvvvv"), testRecord("v3", "c-bcdfg")
	own, derived := splitDerived([]record{v1Record, behind, apart})
	if len(own) != 2 || own[0].id() != "v1/c-vvvvv" || own[1].id() != "v3/c-bcdfg" {
		t.Errorf("got the records %v, want v1/c-vvvvv and v3/c-bcdfg", own)
	}
	if len(derived) != 1 || derived[0].id() != "v3/c-vvvvv" {
		t.Errorf("got %v as what they lead to, want v3/c-vvvvv", derived)
	}
}
