package setup

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/shard"
)

func TestCachesKeepWhatIsRead(t *testing.T) {
	large := strings.Repeat("x", 200<<10)
	hostile := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "tenant", Name: "a", UID: "1", ResourceVersion: "2", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}},
			Labels:      map[string]string{clusterv1.ClusterNameLabel: "prod", "archelon.io/instance": "one", "other": large},
			Annotations: map[string]string{"other": large, "archelon.io/scope": "*", "archelon.io/watch-filter": "blue"},
		}
	}
	kept := metav1.ObjectMeta{Namespace: "tenant", Name: "a", UID: "1", ResourceVersion: "2"}
	instanceOf := kept
	instanceOf.Labels = map[string]string{"archelon.io/instance": "one"}
	instanceOf.Annotations = map[string]string{"archelon.io/scope": "*", "archelon.io/watch-filter": "blue"}
	for name, tc := range map[string]struct {
		reason       string
		transform    toolscache.TransformFunc
		object, want client.Object
	}{
		"Lease": {
			"who holds it, and what that claims", keepLease,
			&coordinationv1.Lease{ObjectMeta: hostile(), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), PreferredHolder: &large}},
			&coordinationv1.Lease{ObjectMeta: instanceOf, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")}},
		},
		"Unknown": {"what is none stays as it is", keepLease, &corev1.Secret{ObjectMeta: hostile()}, &corev1.Secret{ObjectMeta: hostile()}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.transform(tc.object)
			if diff := cmp.Diff(any(tc.want), got); diff != "" || err != nil {
				t.Errorf("%s: %v %s", tc.reason, err, diff)
			}
		})
	}
}

// A tenant may write Leases in its own namespace. They are not even received.
func TestLeasesOfInstancesAreReadInOneNamespace(t *testing.T) {
	beside := besideCacheOptions(shard.Scope{}, "coordination", 0)
	if got := leasesOf(t, beside).Namespaces; !reflect.DeepEqual(got, map[string]cache.Config{"coordination": {}}) {
		t.Errorf("got %v", got)
	}
	own := cacheOptions(shard.Scope{}, []string{"turtles"}, 0)
	if got := leasesOf(t, own).Namespaces; !reflect.DeepEqual(got, map[string]cache.Config{"turtles": {}}) {
		t.Errorf("got %v", got)
	}
}

func leasesOf(t *testing.T, options cache.Options) cache.ByObject {
	t.Helper()
	for object, by := range options.ByObject {
		if _, ok := object.(*coordinationv1.Lease); ok {
			return by
		}
	}
	t.Fatal("it has no Leases")
	return cache.ByObject{}
}
