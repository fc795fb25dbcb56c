package instance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/internal/shard"
)

// world is some processes, of which no two may ever write in one namespace.
type world struct {
	t         *testing.T
	server    *server
	processes []*process
}

// inWorld runs a test in time that passes only when everything waits.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: newServer()}
		ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // it ends before the test
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for ctx.Err() == nil {
				w.check()
				pass(50 * time.Millisecond)
			}
		}()
		defer func() {
			cancel()
			<-watched
			for _, p := range w.processes {
				p.line.set(false, false)
				p.stop()
			}
		}()
		test(w)
	})
}

func (w *world) start(name, scope string, filter ...string) *process {
	w.t.Helper()
	pass(time.Second) // The creation of a Lease is written down in seconds.
	p := w.server.start(w.t, name, scope, strings.Join(filter, ""))
	w.server.mu.Lock()
	w.processes = append(w.processes, p)
	w.server.mu.Unlock()
	return p
}

// check fails if two may write in one namespace.
func (w *world) check() {
	w.server.mu.Lock()
	processes := slices.Clone(w.processes)
	w.server.mu.Unlock()
	for i, a := range processes {
		for _, b := range processes[:i] {
			if both := a.writes().Within(b.writes()); !both.Empty() && a.claim.meets(b.claim) {
				w.t.Errorf("%s and %s may both write in %s", a.id, b.id, both)
			}
		}
	}
}

// expect waits until a process may write in a scope, and nowhere else.
func (w *world) expect(p *process, scope string, within time.Duration) {
	w.t.Helper()
	var got shard.Scope
	for began := time.Now(); time.Since(began) <= within; pass(100 * time.Millisecond) {
		if got = p.writes(); got.Encode() == scope {
			return
		}
	}
	w.t.Fatalf("%s may write in %s, want %s; it said %q and ended because of %q", p.id, got.Encode(), scope, p.said, p.ended)
}

// remain fails if a process may write anywhere else for a time.
func (w *world) remain(p *process, scope string, lasts time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) <= lasts; pass(100 * time.Millisecond) {
		if got := p.writes().Encode(); got != scope {
			w.t.Fatalf("%s may write in %s after %v, want %s; it ended because of %q", p.id, got, time.Since(began), scope, p.ended)
		}
	}
}

func (p *process) expectSaid(text string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(strings.Join(p.said, "\n"), text) {
		p.t.Errorf("%s said %q, want %q", p.id, p.said, text)
	}
}

const (
	soon = 5 * time.Second
	// takeover is how long it takes until one works that was dead for others: its Lease runs out, and they wait whether
	// it comes back.
	takeover = 30 * time.Second
)

func TestTwoWithoutFlags(t *testing.T) {
	inWorld(t, func(w *world) {
		older := w.start("b", "*")
		w.expect(older, "*", soon)
		younger := w.start("a", "*")
		w.remain(younger, "+", time.Minute)
		w.expect(older, "*", 0)
		younger.expectSaid("NamespacesLeftToPeer: Instance system/b has all namespaces")
		older.stop()
		w.expect(younger, "*", takeover)
		w.expect(w.restart(0), "*", takeover)
		w.expect(younger, "+", 0)
	})
}

func TestTwoThatStartTogether(t *testing.T) {
	for range 20 {
		inWorld(t, func(w *world) {
			a, b := w.server.start(w.t, "a", "*", ""), w.server.start(w.t, "b", "*", "")
			w.server.mu.Lock()
			w.processes = append(w.processes, a, b)
			w.server.mu.Unlock()
			w.expect(a, "*", takeover)
			w.remain(b, "+", time.Minute)
		})
	}
}

func TestOneThatNamesANamespaceBesideALastResort(t *testing.T) {
	inWorld(t, func(w *world) {
		last := w.start("last", "*")
		w.expect(last, "*", soon)
		dedicated := w.start("team", "+x,y")
		w.expect(dedicated, "+x,y", takeover)
		w.expect(last, "-x,y", takeover)
		last.expectSaid("Instance system/team has namespaces x, y")
		// It is not taken over, however long the other one is away.
		dedicated.stop()
		w.remain(last, "-x,y", time.Hour)
		last.expectSaid("system/team has namespaces x, y and does not run. Start it, or delete its Lease system/team-leader-election")
		// Without its Lease it is.
		w.server.forget("team")
		w.expect(last, "*", takeover)
	})
}

func TestOneWhoseLeaseIsDeletedWhileItWorks(t *testing.T) {
	inWorld(t, func(w *world) {
		older, younger := w.start("older", "*"), w.start("younger", "*")
		w.expect(older, "*", takeover)
		w.remain(younger, "+", 10*time.Second)
		// It registers again, as the younger one of the two, and they change places.
		w.server.forget("older")
		w.expect(younger, "*", takeover)
		w.remain(older, "+", time.Minute)
	})
}

func TestOneThatIsFrozen(t *testing.T) {
	inWorld(t, func(w *world) {
		frozen, other := w.start("frozen", "*"), w.start("other", "*")
		w.expect(frozen, "*", takeover)
		w.remain(other, "+", 10*time.Second)
		frozen.line.set(true, true)
		w.expect(other, "*", takeover)
		frozen.line.set(false, false)
		// It notices, and what it gets after that it gets in order.
		w.expect(frozen, "*", time.Minute)
		if why := strings.Join(frozen.ended, "\n"); !strings.Contains(why, "did not renew its Lease for") && why != "" {
			t.Errorf("ended because of %q", why)
		}
	})
}

func TestOneWhoseWatchIsSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		older, younger := w.start("older", "*"), w.start("younger", "*")
		w.expect(older, "*", takeover)
		w.remain(younger, "+", 10*time.Second)
		// The one that stands by takes the other for dead.
		younger.line.set(false, true)
		w.remain(younger, "+", 5*time.Minute)
		w.expect(older, "*", 0)
		younger.line.set(false, false)
		w.remain(older, "*", time.Minute)
		// The one that works stands still, and has the Lease all the same.
		older.line.set(false, true)
		w.expect(older, "+", 15*time.Second)
		w.remain(younger, "+", 5*time.Minute)
		older.line.set(false, false)
		w.expect(older, "*", takeover)
	})
}

func TestDifferentFiltersDoNotMeet(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a", "*", "one"), w.start("b", "*", "two")
		w.expect(a, "*", soon)
		w.expect(b, "*", soon)
	})
}

func TestAStrangersNoteOnALeaseIsNoRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		last, team := w.start("last", "*"), w.start("gone", "-x")
		w.expect(team, "-x", takeover)
		team.line.set(true, true)
		for range 30 {
			pass(2 * time.Second)
			w.server.mu.Lock()
			lease := w.server.leases["gone-leader-election"].DeepCopy()
			lease.Annotations["note"] = fmt.Sprint(time.Now())
			w.server.write("MODIFIED", lease)
			w.server.mu.Unlock()
		}
		w.expect(last, "*", 0)
		if len(last.ended) != 2 {
			t.Errorf("it started again because of %q, want once when the other one came and once when it went", last.ended)
		}
	})
}

// Whatever happens to processes, never do two write in one namespace, and when nothing happens any more each namespace
// that somebody claims has one that writes.
func TestUpheaval(t *testing.T) {
	scopes := []string{"*", "*", "+x", "+x,y", "-x", "-y,z"}
	seeds := uint64(40)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			inWorld(t, func(w *world) {
				for i := range 2 + random.IntN(3) {
					w.start(fmt.Sprint("i", i), scopes[random.IntN(len(scopes))])
					pass(time.Duration(random.IntN(3000)) * time.Millisecond)
				}
				for range 60 {
					w.strike(random.IntN(len(w.processes)), random.IntN(4))
					pass(time.Duration(random.IntN(20_000)) * time.Millisecond)
				}
				for _, p := range w.processes {
					p.line.set(false, false)
				}
				pass(3 * time.Minute)
				for _, name := range []string{"x", "y", "z", "elsewhere"} {
					w.expectOneWriter(name)
				}
			})
		})
	}
}

// strike freezes a process, silences its watch, has it go on, or starts it again.
func (w *world) strike(i, how int) {
	p := w.processes[i]
	p.line.set(how == 0, how < 2)
	if how == 3 {
		p.stop()
		w.restart(i)
	}
}

// restart starts an instance again that was stopped.
func (w *world) restart(i int) *process {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	stopped := w.processes[i]
	w.processes[i] = w.server.start(w.t, stopped.id.Name, stopped.claim.Scope.Encode(), "")
	return w.processes[i]
}

func (w *world) expectOneWriter(name string) {
	w.t.Helper()
	claimed := 0
	var writers []string
	for _, p := range w.processes {
		if p.claim.Scope.Owns(name) {
			claimed++
		}
		if p.writes().Owns(name) {
			writers = append(writers, p.id.Name)
		}
	}
	if want := min(claimed, 1); len(writers) != want {
		w.t.Errorf("%v write in %s, want %d", writers, name, want)
		for _, p := range w.processes {
			w.t.Logf("%s claims %s, works in %s, said %q, ended %q", p.id, p.claim.Scope.Encode(), p.works.Encode(), p.said, p.ended)
		}
		for _, lease := range w.server.leases {
			w.t.Logf("%s %v %v at %s", lease.Name, lease.Annotations, lease.Spec, metav1.Now())
		}
	}
}

// Who leaves something to another instance learns when that is gone, and not while it is there.
func TestOthersAreToldOfWhoIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		last, team, lost := w.start("last", "*"), w.start("team", "+x"), w.start("lost", "+y")
		w.expect(last, "-x,y", takeover)
		w.expect(lost, "+y", takeover)
		expectTold := func(after time.Duration, want ...string) {
			t.Helper()
			pass(after)
			var told, second []string
			last.set(func() { told, second, last.gone, last.second = last.gone, last.second, nil, nil })
			if !slices.Equal(told, want) || !slices.Equal(second, want) {
				t.Errorf("told of %q and %q, want %q", told, second, want)
			}
		}
		expectTold(time.Minute)
		team.stop()
		expectTold(takeover, "system/team")
		lost.line.set(true, true)
		expectTold(durations.Lease / 2)
		expectTold(takeover, "system/lost")
		lost.line.set(false, false)
		w.expect(lost, "+y", time.Minute)
		last.set(func() { last.gone, last.second = nil, nil }) // It may have come and gone before it came to stay.
		expectTold(time.Minute)
		lost.stop()
		w.server.forget("lost")
		expectTold(time.Second, "system/lost")
		// It starts again with the namespace, and takes the other one for alive for a moment.
		expectTold(time.Hour, "system/team")
	})
}
