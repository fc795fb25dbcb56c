package importer

import (
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/scheme"
)

// fixedNames is a strategy that proposes two names.
type fixedNames struct {
	testStrategy
	object        func() client.Object
	first, second string
}

func (s fixedNames) NewObject() client.Object { return s.object() }

func (s fixedNames) NewList() client.ObjectList {
	if s.kind == "v1" {
		return &provisioningv1.ClusterList{}
	}
	return &managementv3.ClusterList{}
}

func (fixedNames) Derived(client.Object) bool { return false }

func (s fixedNames) Key(cluster *clusterv1.Cluster, name string) client.ObjectKey {
	if s.kind == "v1" {
		return client.ObjectKey{Namespace: cluster.Namespace, Name: name}
	}
	return client.ObjectKey{Name: name}
}

func (s fixedNames) ProposeName(_ *clusterv1.Cluster, taken func(string) bool) string {
	if taken(s.first) {
		return s.second
	}
	return s.first
}

func (s fixedNames) Names(_ *clusterv1.Cluster, name string) bool {
	return name == s.first || name == s.second
}

func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
}

func namedCluster(id string) *clusterv1.Cluster {
	return testCluster(annotated("archelon.io/rancher-cluster", id), func(c *clusterv1.Cluster) {
		c.Finalizers = []string{"archelon.io/rancher-import"}
	})
}

func TestNamedRecord(t *testing.T) {
	v3 := &fixedNames{testStrategy: testStrategy{kind: "v3"}, object: func() client.Object { return &managementv3.Cluster{} }, first: "c-bcdfg", second: "c-hjklm"}
	foreign := func(o client.Object) { o.GetLabels()["archelon.io/capi-cluster-uid"] = "uid-2" }
	held := func(o client.Object) {
		o.SetLabels(nil)
		o.SetFinalizers([]string{"archelon.io/rancher-import"})
	}
	for name, test := range map[string]struct {
		reason string
		id     string
		cached []record
		live   []record
		want   bool
	}{
		"Ahead":     {reason: "a name that was written ahead", id: "v3/c-bcdfg", want: true},
		"Forged":    {reason: "a name that is never chosen", id: "v3/victim"},
		"Kept":      {reason: "its record has the name, as one that was adopted may", id: "v3/legacy", cached: []record{testRecord("v3", "legacy")}, want: true},
		"Hidden":    {reason: "its record has the name, and has lost its labels", id: "v3/legacy", live: []record{testRecord("v3", "legacy", held)}, want: true},
		"Foreign":   {reason: "the record of that name is another cluster's", id: "v3/legacy", live: []record{testRecord("v3", "legacy", foreign)}},
		"Edited":    {reason: "its record has another name", id: "v3/c-hjklm", cached: []record{testRecord("v3", "c-bcdfg")}, live: []record{testRecord("v3", "c-bcdfg")}},
		"Stale":     {reason: "the record that the cache shows is gone", id: "v3/c-hjklm", cached: []record{testRecord("v3", "c-bcdfg")}, want: true},
		"Going":     {reason: "the next record gets a name of its own", id: "v3/c-bcdfg", cached: []record{testRecord("v3", "c-bcdfg", terminating)}},
		"OtherKind": {reason: "a record of the other kind", id: "v1/prod-capi"},
		"None":      {reason: "there is no name"},
	} {
		t.Run(name, func(t *testing.T) {
			o := seen(namedCluster(test.id))
			for _, cached := range test.cached {
				o.records = append(o.records, record{Object: cached.Object, strategy: v3})
			}
			var objects []client.Object
			for _, live := range test.live {
				objects = append(objects, live.Object)
			}
			r := &Reconciler{
				Rules: Rules{Active: v3, Others: []Strategy{testStrategy{kind: "v1"}}}, APIReader: clientWith(t, objects...), Clock: clock.RealClock{},
			}
			var got bool
			out := r.obey(t.Context(), o, func(d *deciding) Decision {
				_, stays, look := d.namedRecord()
				if got = stays; look != nil {
					return ask(look)
				}
				return pass()
			}).Outcome
			if got != test.want || !out.IsDone() {
				t.Errorf("namedRecord() = %t, %v, want %t: %s", got, out, test.want, test.reason)
			}
		})
	}
}

// Nothing is written where both names are taken by what the cache does not show.
func TestRenameStops(t *testing.T) {
	v1 := &fixedNames{testStrategy: testStrategy{kind: "v1"}, object: func() client.Object { return &provisioningv1.Cluster{} }, first: "prod-capi", second: "prod-1-capi"}
	foreign := func(name string) *provisioningv1.Cluster {
		return &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}}
	}
	r := &Reconciler{
		Rules: Rules{Active: v1}, Client: clientWith(t), APIReader: clientWith(t, foreign("prod-capi"), foreign("prod-1-capi")), Clock: clock.RealClock{},
	}
	for _, name := range []string{"prod-capi", "prod-1-capi"} {
		o := seen(namedCluster("v1/" + name))
		out := r.obey(t.Context(), o, func(d *deciding) Decision { return d.rename(&record{Object: foreign(name), strategy: v1}) }).Outcome
		if out.Reason != "ForeignRancherCluster" || out.After != unseenRecheck || !strings.Contains(out.Message, "tenant/prod-capi") || !strings.Contains(out.Message, "tenant/prod-1-capi") {
			t.Errorf("%s: got %+v, want ForeignRancherCluster that names both, and a look after %s", name, out, unseenRecheck)
		}
		if got := o.cluster.Annotations["archelon.io/rancher-cluster"]; got != "v1/"+name {
			t.Errorf("%s: %s was written", name, got)
		}
	}
}

// A record that lost the label by which the cache knows it is not taken for one that was removed.
func TestCheckPermissionLooksForTheRecord(t *testing.T) {
	v3 := &fixedNames{testStrategy: testStrategy{kind: "v3"}, object: func() client.Object { return &managementv3.Cluster{} }, first: "c-bcdfg", second: "c-hjklm"}
	hidden := testRecord("v3", "c-bcdfg", unlabelled("cluster-api.cattle.io/owned"))
	o := seen(namedCluster("v3/c-bcdfg"))
	o.cluster.Annotations["imported"] = "true"
	r := &Reconciler{Rules: Rules{Active: v3}, APIReader: clientWith(t, hidden.Object), Clock: clock.RealClock{}}
	if out := r.obey(t.Context(), o, (*deciding).checkPermission).Outcome; !out.IsDone() || !o.hasRecord() {
		t.Errorf("got %+v, want the import to go on with its record", out)
	}
}

// A record that the cluster does not name any more, and that the cache does not show, is followed.
func TestClaimFollowsTheRecordThatNobodyNames(t *testing.T) {
	v3 := &fixedNames{testStrategy: testStrategy{kind: "v3"}, object: func() client.Object { return &managementv3.Cluster{} }, first: "c-hjklm", second: "c-npqrs"}
	o := seen(namedCluster(""))
	delete(o.cluster.Annotations, "archelon.io/rancher-cluster")
	o.cluster.Finalizers = []string{"archelon.io/rancher-import"}
	r := &Reconciler{Rules: Rules{Active: v3}, APIReader: clientWith(t, testRecord("v3", "c-bcdfg").Object), Clock: clock.RealClock{}}
	got := ""
	r.obey(t.Context(), o, func(d *deciding) Decision {
		if d.mayOwnMore() {
			return ask(askOwned{})
		}
		got = d.ownName()
		return pass()
	})
	if got != "c-bcdfg" {
		t.Errorf("got %q, want the name of its record", got)
	}
}
