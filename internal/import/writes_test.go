package importer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
