package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCachesKeepWhatIsRead(t *testing.T) {
	large := strings.Repeat("x", 200<<10)
	hostile := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "tenant", Name: "a", UID: "1", ResourceVersion: "2", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}},
			Labels:      map[string]string{clusterv1.ClusterNameLabel: "prod", "other": large},
			Annotations: map[string]string{"other": large},
		}
	}
	kept := metav1.ObjectMeta{Namespace: "tenant", Name: "a", UID: "1", ResourceVersion: "2"}
	for name, tc := range map[string]struct {
		reason       string
		transform    toolscache.TransformFunc
		object, want client.Object
	}{
		"Lease": {
			"who holds it", KeepLease,
			&coordinationv1.Lease{ObjectMeta: hostile(), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), PreferredHolder: &large}},
			&coordinationv1.Lease{ObjectMeta: kept, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")}},
		},
		"Unknown": {"what is none stays as it is", KeepLease, &corev1.Secret{ObjectMeta: hostile()}, &corev1.Secret{ObjectMeta: hostile()}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.transform(tc.object)
			if diff := cmp.Diff(any(tc.want), got); diff != "" || err != nil {
				t.Errorf("%s: %v %s", tc.reason, err, diff)
			}
		})
	}
}

func TestKeepIdentity(t *testing.T) {
	full := metav1.ObjectMeta{
		Namespace: "c-abcde", Name: "token", UID: "1", ResourceVersion: "2", CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{"a": "b"},
	}
	want := full
	want.Labels = nil
	got, err := KeepIdentity(&metav1.PartialObjectMetadata{ObjectMeta: full})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&metav1.PartialObjectMetadata{ObjectMeta: want}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
