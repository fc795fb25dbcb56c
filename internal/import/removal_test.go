package importer

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
)

// A cluster may name a Rancher cluster that was not created, because a tenant wrote the name or the gate was flipped.
func TestADeletionInRancherCountsWhateverIsNamed(t *testing.T) {
	now := new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)))
	going := v3Record()
	going.DeletionTimestamp = now
	second := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "tenant", Name: "prod-capi", UID: "record-2", Finalizers: []string{finalizer}, Labels: v3Record().Labels,
	}}
	unseen := second.DeepCopy()
	unseen.Labels = map[string]string{"archelon.io/capi-cluster-uid": "uid-1"}
	type end struct {
		imported, record string
		held, old        bool
	}
	for name, tc := range map[string]struct {
		reason    string
		annotated string
		objects   []client.Object
		removed   bool
		want      end
	}{
		"NoSecond": {
			reason:    "the record is deleted in Rancher, and the one that is named does not exist",
			annotated: "v1/prod-capi", removed: true, want: end{imported: "true"},
		},
		"Second": {
			reason:    "the second one is there: the first record was one too many",
			annotated: "v1/prod-capi", objects: []client.Object{second}, want: end{record: "v1/prod-capi", held: true},
		},
		"SecondUnseen": {
			reason:    "the cache does not show it yet",
			annotated: "v1/prod-capi", objects: []client.Object{unseen}, want: end{record: "v1/prod-capi", held: true},
		},
		"Itself": {
			reason:    "the record that the cluster names",
			annotated: "v3/c-abcde", removed: true, want: end{imported: "true"},
		},
		"Noted": {
			reason: "the removal was noted, and the user has asked for a new import before the record was released",
			want:   end{held: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster(held, annotated(recordKey, tc.annotated))
			if tc.annotated == "" {
				delete(cluster.Annotations, recordKey)
			}
			b := newBench(t, instance.Claim{}, append(tc.objects, cluster, going.DeepCopy())...)
			b.Active, b.Others = v1Strategy{}, []Strategy{v3Strategy{}}
			o, err := b.observe(t.Context(), client.ObjectKeyFromObject(cluster))
			if err != nil {
				t.Fatal(err)
			}
			if name == "SecondUnseen" {
				o.records = slices.DeleteFunc(o.records, func(r record) bool { return r.strategy.Kind() == "v1" })
			}
			if out := b.obey(t.Context(), o, (*deciding).observeRemoval).Outcome; !out.IsDone() || o.removed != tc.removed {
				t.Errorf("%s: stopped with %+v, removed: %t", tc.reason, out, o.removed)
			}
			found := testCluster()
			b.there(t, found)
			got := end{
				imported: found.Annotations["imported"], record: found.Annotations[recordKey],
				held: slices.Contains(found.Finalizers, finalizer), old: b.there(t, v3Record()),
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(end{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
