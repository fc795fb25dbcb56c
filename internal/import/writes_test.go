package importer

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCreationsAreAwaitedForAMoment(t *testing.T) {
	c := newCreations()
	now := time.Now()
	c.note("uid-1", "v3/c-aaaaa", now)
	for _, tc := range []struct {
		reason, id string
		cluster    types.UID
		after      time.Duration
		want       time.Duration
	}{
		{"just made", "v3/c-aaaaa", "uid-1", time.Second, madeTrust - time.Second},
		{"the cache is in trouble", "v3/c-aaaaa", "uid-1", madeTrust, 0},
		{"another record", "v3/c-bbbbb", "uid-1", 0, 0},
		{"another cluster", "v3/c-aaaaa", "uid-2", 0, 0},
	} {
		if got := c.of(tc.cluster).awaited(tc.id, now.Add(tc.after)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
		}
	}
	c.note("uid-2", "v3/c-bbbbb", now.Add(2*madeTrust))
	if len(c.last) != 1 {
		t.Errorf("%d records are remembered, want the new one only", len(c.last))
	}
	c.forget("uid-2")
	if len(c.last) != 0 {
		t.Errorf("%d records are remembered, want none", len(c.last))
	}
}

// A real API server refuses a patch with another UID in this way.
func TestAnotherUIDIsAConflict(t *testing.T) {
	kind := schema.GroupKind{Group: "management.cattle.io", Kind: "Cluster"}
	for _, tc := range []struct {
		reason string
		err    error
		want   bool
	}{
		{"another object has the name", apierrors.NewInvalid(kind, "c-abcde", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "uid-1", "field is immutable"),
		}), true},
		{"the patch itself is refused", apierrors.NewInvalid(kind, "c-abcde", field.ErrorList{
			field.Invalid(field.NewPath("spec", "displayName"), "", "it is empty"),
		}), false},
		{"it is none of that", apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, "c-abcde"), false},
	} {
		if got := apierrors.IsConflict(replacedOr(tc.err)); got != tc.want {
			t.Errorf("%s: got a conflict: %t", tc.reason, got)
		}
	}
	if err := replacedOr(nil); err != nil {
		t.Errorf("of no error came %v", err)
	}
}

// What a run has written is remembered until the cache shows it, however the run ends.
func TestOwnWritesOutliveTheRun(t *testing.T) {
	written := testCluster()
	written.ResourceVersion = "2"
	r := &Reconciler{memory: newMemory()}
	r.writes.note(written)
	cached := testCluster()
	cached.ResourceVersion = "1"
	if !r.writes.ahead(cached) {
		t.Error("it is forgotten, although the cache has yet to show it")
	}
}
