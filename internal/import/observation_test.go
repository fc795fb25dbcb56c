package importer

import (
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const derivedKey = "derived"

// derivingV3 knows by an annotation what Rancher made from records of another kind.
type derivingV3 struct{ v3Strategy }

func (derivingV3) Derived(object client.Object) bool {
	return object.GetAnnotations()[derivedKey] != ""
}

// What the API server shows is news where a late cache shows less: another one, or that one is being deleted.
func TestLearn(t *testing.T) {
	v3 := func(name string, change ...func(*managementv3.Cluster)) record {
		object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, c := range change {
			c(object)
		}
		return record{Object: object, strategy: derivingV3{}}
	}
	going := func(c *managementv3.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }
	derived := func(c *managementv3.Cluster) { c.Annotations = map[string]string{derivedKey: "true"} }
	o := &Observation{records: []record{v3("c-known")}, derived: []record{v3("c-m-known", derived)}}
	for _, live := range []record{v3("c-known", going), v3("c-m-known", derived, going), v3("c-new"), v3("c-m-new", derived)} {
		o.learn(live)
	}
	if len(o.records) != 2 || len(o.derived) != 2 {
		t.Fatalf("got %d records and %d derived, want 2 and 2", len(o.records), len(o.derived))
	}
	if !o.records[0].deleting() || !o.derived[0].deleting() || o.records[1].GetName() != "c-new" || o.derived[1].GetName() != "c-m-new" {
		t.Errorf("got %v and %v", o.records, o.derived)
	}
}
