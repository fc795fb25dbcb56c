package seat

import (
	"errors"
	"testing"
	"time"
)

func leaver(w *world, management *leases) *Leaver {
	w.t.Helper()
	l, err := NewLeaver(w.place(management), DefaultTiming(), w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// free fails unless the answer is as wanted.
func free(t *testing.T, l *Leaver, want bool) {
	t.Helper()
	if got, err := l.Free(t.Context()); got != want || got && err != nil {
		t.Fatalf("is it free? %t, %v", got, err)
	}
}

func TestLeavingTheSeat(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	l := leaver(w, site)
	if err := l.Taken(t.Context()); err != nil {
		t.Errorf("its own is that of another: %v", err)
	}
	first.park(t.Context())
	free(t, l, true)
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen := sightOf(w.rancher.all[LeaseName(origin)]); seen.holder != "" || len(site.all) > 0 {
		t.Errorf("what is left: %v, %v", seen, site.all)
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func TestASeatThatWasNotGivenBackIsWatched(t *testing.T) {
	w := newWorld(t)
	site, _ := installed(w)
	l := leaver(w, site)
	free(t, l, false)
	w.clock.Step(DefaultTiming().Quiet - 1)
	free(t, l, false)
	w.clock.Step(1)
	free(t, l, true)
}

func TestWhatAnotherServesIsNotUninstalled(t *testing.T) {
	w := newWorld(t)
	site, original := installed(w)
	for name, l := range map[string]*Leaver{"a stranger": leaver(w, newLeases()), "a clone": leaver(w, site.copied())} {
		_, _ = l.Free(t.Context()) // The clone has to look twice.
		w.clock.Step(DefaultTiming().Renew)
		original.step(t.Context())
		if _, err := l.Free(t.Context()); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	stranger := leaver(w, newLeases())
	if err := stranger.Taken(t.Context()); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v", err)
	}
	if err := stranger.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(time.Millisecond)
	if original.step(t.Context()) {
		t.Error("the seat was taken from who holds it")
	}
	w.clock.Step(DefaultTiming().Expire)
	free(t, stranger, true)
}
