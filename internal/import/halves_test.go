package importer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Where many begin at once, most of them begin when Rancher is ready. No place is lost.
func TestFewInstallationsBeginBeforeRancherIsReady(t *testing.T) {
	h, now := newHalves(), time.Now()
	key := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(i)}
	}
	for i := range halfwayMost {
		for range 2 { // One that has begun goes on.
			if !h.begin(key(i), now) {
				t.Fatalf("number %d of %d may not begin", i, halfwayMost)
			}
		}
	}
	if h.begin(key(99), now) {
		t.Fatal("there is no bound")
	}
	h.keep(key(0), remainder{input: "a"})
	h.leave(key(0))
	if h.begin(key(99), now) || !h.waits(key(0)) {
		t.Error("one that has ended halfway gave its place back")
	}
	for name, back := range map[string]func(){
		"Done":      func() { h.end(key(0), "a") },
		"Failed":    func() { h.leave(key(1)) },
		"Forgotten": func() { h.forget(key(2)) },
	} {
		if back(); !h.begin(types.NamespacedName{Name: name}, now) {
			t.Errorf("%s: its place is lost", name)
		}
	}
	if h.begin(key(99), now) || !h.begin(key(99), now.Add(2*time.Minute)) {
		t.Error("places are held for longer than Rancher has time")
	}
}
