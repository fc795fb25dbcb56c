package importer

import (
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			s := &scope{cluster: namedCluster(test.id)}
			for _, cached := range test.cached {
				s.records = append(s.records, record{Object: cached.Object, strategy: v3})
			}
			var objects []client.Object
			for _, live := range test.live {
				objects = append(objects, live.Object)
			}
			r := &Reconciler{Active: v3, Others: []Strategy{testStrategy{kind: "v1"}}, APIReader: clientWith(t, objects...)}
			if _, got, err := r.namedRecord(t.Context(), s); got != test.want || err != nil {
				t.Errorf("namedRecord() = %t, %v, want %t: %s", got, err, test.want, test.reason)
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
	r := &Reconciler{Active: v1, Client: clientWith(t), APIReader: clientWith(t, foreign("prod-capi"), foreign("prod-1-capi"))}
	for _, name := range []string{"prod-capi", "prod-1-capi"} {
		s := &scope{cluster: namedCluster("v1/" + name)}
		s.cluster.Namespace = "tenant"
		out := r.rename(t.Context(), s, &record{Object: foreign(name), strategy: v1})
		if out.Reason != "ForeignRecord" || out.After != unseenRecheck || !strings.Contains(out.Message, "tenant/prod-capi") || !strings.Contains(out.Message, "tenant/prod-1-capi") {
			t.Errorf("%s: got %+v, want ForeignRecord that names both, and a look after %s", name, out, unseenRecheck)
		}
		if got := s.cluster.Annotations["archelon.io/rancher-cluster"]; got != "v1/"+name {
			t.Errorf("%s: %s was written", name, got)
		}
	}
}

// A record that lost the label by which the cache knows it is not taken for one that was removed.
func TestCheckPermissionLooksForTheRecord(t *testing.T) {
	v3 := &fixedNames{testStrategy: testStrategy{kind: "v3"}, object: func() client.Object { return &managementv3.Cluster{} }, first: "c-bcdfg", second: "c-hjklm"}
	hidden := testRecord("v3", "c-bcdfg", unlabelled("cluster-api.cattle.io/owned"))
	s := &scope{cluster: namedCluster("v3/c-bcdfg")}
	s.cluster.Annotations["imported"] = "true"
	r := &Reconciler{Active: v3, APIReader: clientWith(t, hidden.Object)}
	if out := r.checkPermission(t.Context(), s); !out.IsDone() || !s.hasRecord() {
		t.Errorf("got %+v, want the import to go on with its record", out)
	}
}
