package seat

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// site is a management cluster, or a clone of one: what it remembers, and the process that runs there, if one does.
type site struct {
	memory  *leases
	process *Seat
}

// crash is the end of a process in the middle of something.
type crash struct{}

// begin is at a random moment; the clocks of others are not asked.
func (s *site) begin(w *world) { s.process = w.start(s.memory) }

// act has a process do something, and end if it crashes by that.
func (s *site) act(do func(*Seat)) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(crash); !ok {
				panic(cause)
			}
			s.process = nil
		}
	}()
	if s.process != nil {
		do(s.process)
	}
}

// fault draws what befalls the next write anywhere.
func fault(t *rapid.T, w *world, sites []*site) {
	what := rapid.SampledFrom([]string{"crash before", "crash after", "lost before", "lost after"}).Draw(t, "fault")
	befall := func(answered bool) error {
		when := "before"
		if answered {
			when = "after"
		}
		switch what {
		case "crash " + when:
			what = ""
			panic(crash{})
		case "lost " + when:
			what = ""
			return errors.New("simulated outage")
		}
		return nil
	}
	w.rancher.befall = befall
	for _, s := range sites {
		s.memory.befall = befall
	}
}

// Whatever happens in whatever order, two never write, and when there is one left it gets the seat.
func TestSimulation(t *testing.T) {
	ctx, timing := t.Context(), DefaultTiming()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		sites := []*site{{memory: newLeases()}, {memory: newLeases()}, {memory: newLeases()}}
		check := func() {
			t.Helper()
			writes := 0
			for _, s := range sites {
				if s.process != nil && s.process.Check() == nil {
					writes++
				}
			}
			if writes > 1 {
				rt.Fatalf("%d may write", writes)
			}
		}
		for range rapid.IntRange(10, 80).Draw(rt, "steps") {
			s := rapid.SampledFrom(sites).Draw(rt, "site")
			switch rapid.SampledFrom([]string{"begin", "step", "step", "step", "steps", "end", "kill", "copy", "fault", "time", "label", "empty"}).Draw(rt, "what") {
			case "begin":
				if s.process == nil {
					s.begin(w)
				}
			case "step":
				s.act(func(p *Seat) { p.step(ctx) })
			case "steps": // all that live, for a time that is long for them
				for range rapid.IntRange(1, 70).Draw(rt, "rounds") {
					for _, one := range sites {
						one.act(func(p *Seat) { p.step(ctx) })
						check()
					}
					w.clock.Step(timing.Renew)
				}
			case "end":
				s.act(func(p *Seat) { p.park(ctx) })
				s.process = nil
			case "kill":
				s.process = nil
			case "copy":
				if s.process == nil {
					s.memory = rapid.SampledFrom(sites).Draw(rt, "of").memory.copied()
				}
			case "fault":
				fault(rt, w, sites)
			case "time":
				w.clock.Step(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
			case "label":
				lease := w.rancher.all[LeaseName(origin)].DeepCopy()
				lease.Labels = map[string]string{"at": w.clock.Now().String()}
				w.rancher.put(lease)
			case "empty":
				w.rancher.put(resource(LeaseName(origin)))
			}
			check()
		}
		last := rapid.SampledFrom(sites).Draw(rt, "last")
		w.rancher.befall = func(bool) error { return nil }
		last.memory.befall = w.rancher.befall
		last.begin(w)
		for range int(timing.Expire/timing.Renew) + 2 {
			last.process.step(ctx)
			w.clock.Step(timing.Renew)
		}
		last.process.step(ctx)
		if err := last.process.Check(); err != nil {
			rt.Fatalf("the last one does not get the seat: %v; %v", err, last.process.Ready(nil))
		}
	})
}

// Wherever a process ends between two writes, the next one of the same installation has the seat as soon as it is quiet, and not later.
func TestACrashBetweenWritesCostsNoMoreThanQuiet(t *testing.T) {
	for at := range 4 {
		w := newWorld(t)
		memory, first := installed(w)
		first.park(t.Context())
		s := &site{memory: memory}
		s.begin(w)
		writes := 0
		befall := func(bool) error {
			if writes++; writes == at+1 {
				panic(crash{})
			}
			return nil
		}
		w.rancher.befall, memory.befall = befall, befall
		s.act(func(p *Seat) { p.step(t.Context()) })
		if s.process != nil {
			t.Fatalf("%d: it did not end", at)
		}
		s.begin(w)
		w.pass(DefaultTiming().Quiet, s.process)
		w.may(s.process, true)
	}
}
