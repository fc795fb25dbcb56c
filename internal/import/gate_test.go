package importer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// While creations wait a few installations go on, and all of them once none does.
func TestFewInstallationsGoOnBesideCreations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var creating, inside atomic.Int64
		g := newGate(3)
		g.creating = func() int { return int(creating.Load()) }
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan struct{})
		for range 10 {
			creating.Store(5)
			go func() {
				leave := g.enter(ctx)
				defer leave()
				inside.Add(1)
				<-end
				inside.Add(-1)
			}()
		}
		expect := func(reason string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := inside.Load(); got != want {
				t.Errorf("%s: %d installations go on, want %d", reason, got, want)
			}
		}
		expect("creations wait", 3)
		end <- struct{}{}
		expect("one has ended", 3)
		creating.Store(0)
		g.opened()
		expect("no creation waits", 9)
		creating.Store(5)
		close(end)
		expect("all have ended", 0)
		if g.inside != 0 {
			t.Errorf("%d are counted when none is left", g.inside)
		}

		end = make(chan struct{})
		for range 4 {
			go func() { defer g.enter(ctx)(); <-end }()
		}
		synctest.Wait()
		cancel()
		close(end)
		synctest.Wait() // None waits for ever.
		if g.inside != 0 {
			t.Errorf("%d are counted when none is left", g.inside)
		}
	})
}
