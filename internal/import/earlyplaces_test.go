package importer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A namespace has no more Rancher clusters without a control plane than is allowed, also while the caches are behind,
// and what waits gets the places in its order.
func TestEarlyPlaces(t *testing.T) {
	const most = 2
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cluster := func(name string) *clusterv1.Cluster {
		c := testCluster()
		c.Name, c.UID = name, types.UID(name)
		return c
	}
	places, held := newEarlyPlaces(), sets.Set[types.UID]{}
	expect := func(name string, want bool) {
		t.Helper()
		if got := places.take(cluster(name), held, most, now); got != want {
			t.Fatalf("%s has a place: %t", name, got)
		}
	}
	expect("a", true)
	expect("a", true)
	expect("b", true)
	expect("c", false)
	expect("d", false)
	expect("c", false)

	now = now.Add(madeTrust) // What was given came to nothing.
	held.Insert("a")
	expect("e", true)
	expect("f", false)

	namespace := cluster("c").Namespace
	next := func(gone ...string) []string {
		var names []string
		for _, key := range places.next(namespace, held, most, now, func(key types.NamespacedName) bool {
			return !sets.New(gone...).Has(key.Name)
		}) {
			names = append(names, key.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string(nil), next()); diff != "" {
		t.Errorf("nothing is free: %s", diff)
	}
	held.Delete("a")
	if diff := cmp.Diff([]string{"d"}, next("c")); diff != "" {
		t.Errorf("c does not wait any more: %s", diff)
	}
	places.forget(types.NamespacedName{Namespace: namespace, Name: "f"})
	now = now.Add(madeTrust)
	if places.anyWaits(namespace) || next() != nil {
		t.Error("f is gone, and still waits")
	}
	places.take(cluster("g"), held, most, now)
	places.next(namespace, held, most, now.Add(madeTrust), nil)
	if len(places.given)+len(places.waiting) > 0 {
		t.Errorf("what is over is remembered: %v, %v", places.given, places.waiting)
	}
}
