package turtles

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMade(t *testing.T) {
	label := func(key string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: "x"}}}
	}
	bare, held := &metav1.PartialObjectMetadata{}, label("archelon.io/capi-cluster-uid")
	held.Finalizers = []string{"other", "capicluster.turtles.cattle.io"}
	for name, tc := range map[string]struct {
		reason string
		record *metav1.PartialObjectMetadata
		want   bool
	}{
		"Bare":      {"its v1 Rancher clusters have no owner labels", bare, true},
		"Held":      {"it has put its finalizer there", held, true},
		"Ours":      {"it has a UID", label("archelon.io/capi-cluster-uid"), false},
		"Named":     {"it names an owner", label("cluster-api.cattle.io/capi-cluster-owner"), false},
		"Namespace": {"it names a namespace", label("cluster-api.cattle.io/capi-cluster-owner-ns"), false},
	} {
		if got := Made(tc.record); got != tc.want {
			t.Errorf("%s, because %s: got %t", name, tc.reason, got)
		}
	}
	if Release(held); Holds(held) || len(held.Finalizers) != 1 {
		t.Errorf("the finalizers are %v", held.Finalizers)
	}
}

func TestAClusterIsTakenOnceFromOneProcess(t *testing.T) {
	key := types.NamespacedName{Namespace: "tenant", Name: "one"}
	runs := Lease{Left: time.Second, By: "turtles-0"}
	own := Taking{UID: "uid", By: runs.By}
	var taken Takings
	taken.Forget(key)
	if runs.MayTake(false, taken.Of(key), own) || !runs.MayTake(true, taken.Of(key), own) || !(Lease{}).MayTake(false, taken.Of(key), own) {
		t.Error("it is taken from one that runs, or not from one that is parked or gone")
	}
	taken.Note(key, own)
	if runs.MayTake(true, taken.Of(key), own) {
		t.Error("it is fought over")
	}
	if !runs.MayTake(true, taken.Of(key), Taking{UID: "uid", By: "turtles-1"}) || !runs.MayTake(true, taken.Of(key), Taking{UID: "another", By: runs.By}) {
		t.Error("another process, or another cluster, is taken for the same")
	}
	taken.Forget(key)
	if !runs.MayTake(true, taken.Of(key), own) {
		t.Error("it is not forgotten")
	}
	if !strings.Contains(WhyNotTaken(true), "disable the importer") || !strings.Contains(WhyNotTaken(false), Park) {
		t.Error("nobody says what to do")
	}
}
