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
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/scheme"
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
	named := kept
	named.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
	for name, tc := range map[string]struct {
		reason       string
		transform    toolscache.TransformFunc
		object, want client.Object
	}{
		"Kubeconfig": {
			"the label says of which cluster it is", keepMetadata(clusterv1.ClusterNameLabel),
			&metav1.PartialObjectMetadata{ObjectMeta: hostile()}, &metav1.PartialObjectMetadata{ObjectMeta: named},
		},
		"Token": {
			"its namespace says whose it is", keepMetadata(),
			&metav1.PartialObjectMetadata{ObjectMeta: hostile()}, &metav1.PartialObjectMetadata{ObjectMeta: kept},
		},
		"Lease": {
			"who holds it, and what that claims", keepLease,
			&coordinationv1.Lease{ObjectMeta: hostile(), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), PreferredHolder: &large}},
			&coordinationv1.Lease{ObjectMeta: instanceOf, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")}},
		},
		"Unknown": {"what is none of them stays as it is", keepCluster, &corev1.Secret{ObjectMeta: hostile()}, &corev1.Secret{ObjectMeta: hostile()}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.transform(tc.object)
			if diff := cmp.Diff(any(tc.want), got); diff != "" || err != nil {
				t.Errorf("%s: %v %s", tc.reason, err, diff)
			}
		})
	}
}

func TestTheCacheKeepsWhatIsReadOfClusters(t *testing.T) {
	large := strings.Repeat("ä", 100<<10)
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"team": "a"}, Finalizers: []string{"archelon.io/rancher-import"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": large, "example.com/note": "short", "notarchelon.example.com/a": "b",
				"archelon.io/agent-env": large, "cluster-api.cattle.io/cluster-description": "text", "imported": "true", "cluster.x-k8s.io/paused": "",
			},
		},
		Spec: clusterv1.ClusterSpec{Paused: new(true), Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: large}}},
	}
	if _, err := keepCluster(cluster); err != nil {
		t.Fatal(err)
	}
	env := cluster.Annotations["archelon.io/agent-env"]
	if len(env) > maxAnnotation || len(env) <= 8<<10 || strings.Contains(env, "\uFFFD") {
		t.Errorf("of an environment that is too large to be used %d bytes are kept", len(env))
	}
	delete(cluster.Annotations, "archelon.io/agent-env")
	want := map[string]string{"cluster-api.cattle.io/cluster-description": "text", "imported": "true", "cluster.x-k8s.io/paused": ""}
	if diff := cmp.Diff(want, cluster.Annotations); diff != "" {
		t.Error(diff)
	}
	if cluster.Spec.Topology.IsDefined() || !*cluster.Spec.Paused || cluster.Labels["team"] != "a" || len(cluster.Finalizers) != 1 {
		t.Errorf("got %v", cluster)
	}
}

// What the cache has left out is not taken away by a write that is computed from it.
func TestWritesLeaveAloneWhatTheCacheDoesNotHave(t *testing.T) {
	s, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	live := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "a", Annotations: map[string]string{"example.com/note": "short", "archelon.io/agent-env": strings.Repeat("x", 20<<10)}},
		Spec:       clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}},
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(live).Build()
	cached := live.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(live), cached); err != nil {
		t.Fatal(err)
	}
	want := cached.DeepCopy()
	if _, err := keepCluster(cached); err != nil {
		t.Fatal(err)
	}
	before := cached.DeepCopy()
	cached.Finalizers = []string{"archelon.io/rancher-import"}
	if err := c.Patch(t.Context(), cached, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	got := &clusterv1.Cluster{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(live), got); err != nil {
		t.Fatal(err)
	}
	want.Finalizers, want.ResourceVersion = cached.Finalizers, got.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
