package rancher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func namedScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	AddNamedClusters(s)
	return s
}

func TestNamedClusterHasTheKindOfRancher(t *testing.T) {
	for object, want := range map[runtime.Object]string{&NamedCluster{}: "Cluster", &NamedClusterList{}: "ClusterList"} {
		gvk, err := apiutil.GVKForObject(object, namedScheme())
		if err != nil || gvk.Group != "management.cattle.io" || gvk.Version != "v3" || gvk.Kind != want {
			t.Errorf("%T: got %v, %v, want v3 %s of management.cattle.io", object, gvk, err, want)
		}
	}
}

func TestTrimNamedCluster(t *testing.T) {
	whole := &NamedCluster{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"management.cattle.io/v3","kind":"Cluster","metadata":{"name":"c-abcde","uid":"u-1","resourceVersion":"7",
		"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-03T03:04:05Z","generation":3,"finalizers":["f"],
		"labels":{"archelon.io/capi-cluster-uid":"capi-1","team":"blue"},"annotations":{"a":"b"},"managedFields":[{"manager":"m"}]},
		"spec":{"displayName":"prod","description":"d"},"status":{"driver":"imported"}}`), whole); err != nil {
		t.Fatal(err)
	}
	made, gone := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local()), metav1.NewTime(time.Date(2026, 1, 3, 3, 4, 5, 0, time.UTC).Local())
	want := &NamedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "u-1", ResourceVersion: "7", CreationTimestamp: made, DeletionTimestamp: &gone},
		Spec:       NamedClusterSpec{DisplayName: "prod"}, Owner: "capi-1",
	}
	got, err := TrimNamedCluster(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the cache keeps (-want +got):\n%s", diff)
	}
	again, err := TrimNamedCluster(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("of what it has trimmed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, want.DeepCopyObject()); diff != "" {
		t.Errorf("a copy (-want +got):\n%s", diff)
	}
}

func TestHolders(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	named := func(name, uid, display string, age time.Duration) *NamedCluster {
		return &NamedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(at.Add(-age))}, Spec: NamedClusterSpec{DisplayName: display},
		}
	}
	going := named("c-going", "u-9", "prod", time.Hour)
	going.DeletionTimestamp, going.Finalizers = &going.CreationTimestamp, []string{"held"}
	c := fake.NewClientBuilder().WithScheme(namedScheme()).WithIndex(&NamedCluster{}, displayNameIndex, DisplayNameKeys).WithObjects(
		named("c-young", "u-1", "PROD", time.Second), named("c-old", "u-5", "prod", time.Minute), named("c-same", "u-4", "Prod", time.Minute),
		named("local", "u-3", "local", time.Hour), named("c-other", "u-2", "prod-2", time.Hour), named("c-none", "u-8", "", time.Hour), going,
	).Build()
	for name, tc := range map[string]struct {
		reason, name string
		want         []string
	}{
		"Order":     {"the oldest first, by their UIDs in one second, and none that is being deleted", "prod", []string{"c-same", "c-old", "c-young"}},
		"Case":      {"the asked name may differ in case", "LOCAL", []string{"local"}},
		"Prefix":    {"the whole name counts", "prod-", nil},
		"Undefined": {"one without a name has none", "c-none", nil},
	} {
		t.Run(name, func(t *testing.T) {
			holders, err := (&DisplayNames{reader: c}).Holders(t.Context(), tc.name)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, holder := range holders {
				got = append(got, holder.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFoldDisplayName(t *testing.T) {
	for _, same := range [][2]string{{"prod", "Prod"}, {"K", "\u212A"}, {"s", "\u017F"}} {
		if FoldDisplayName(same[0]) != FoldDisplayName(same[1]) {
			t.Errorf("%q and %q are the same name to Rancher", same[0], same[1])
		}
	}
}

var _ client.Object = &NamedCluster{}
