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

// play is a run of the simulation.
type play struct {
	*world
	rt    *rapid.T
	sites []*site
}

// act has something happen somewhere.
func (p *play) act() {
	s := rapid.SampledFrom(p.sites).Draw(p.rt, "site")
	switch rapid.SampledFrom([]string{"begin", "step", "step", "step", "end", "kill", "copy", "others"}).Draw(p.rt, "what") {
	case "begin":
		if s.process == nil {
			s.begin(p.world)
		}
	case "step":
		s.act(func(one *Seat) { one.step(p.t.Context()) })
	case "end":
		s.act(func(one *Seat) { one.park(p.t.Context()) })
		s.process = nil
	case "kill":
		s.process = nil
	case "copy":
		if s.process == nil {
			s.memory = rapid.SampledFrom(p.sites).Draw(p.rt, "of").memory.copied()
		}
	case "others":
		p.disturb()
	}
}

// disturb has happen what no process does.
func (p *play) disturb() {
	switch rapid.SampledFrom([]string{"live", "fault", "time", "label", "empty"}).Draw(p.rt, "disturbance") {
	case "live": // all that run, for a time that is long for them
		for range rapid.IntRange(1, 70).Draw(p.rt, "rounds") {
			for _, one := range p.sites {
				one.act(func(s *Seat) { s.step(p.t.Context()) })
				p.check()
			}
			p.clock.Step(DefaultTiming().Renew)
		}
	case "fault":
		fault(p.rt, p.world, p.sites)
	case "time":
		p.clock.Step(time.Duration(rapid.IntRange(1, 400).Draw(p.rt, "seconds")) * time.Second)
	case "label":
		lease := p.rancher.all[LeaseName(origin)].DeepCopy()
		lease.Labels = map[string]string{"at": p.clock.Now().String()}
		p.rancher.put(lease)
	case "empty":
		p.rancher.put(resource(LeaseName(origin)))
	}
}

// check fails if two may write.
func (p *play) check() {
	writes := 0
	for _, s := range p.sites {
		if s.process != nil && s.process.Check() == nil {
			writes++
		}
	}
	if writes > 1 {
		p.rt.Fatalf("%d may write", writes)
	}
}

// checkEnd fails if the one that is left does not get the seat.
func (p *play) checkEnd() {
	last := rapid.SampledFrom(p.sites).Draw(p.rt, "last")
	p.rancher.befall = func(bool) error { return nil }
	last.memory.befall = p.rancher.befall
	last.begin(p.world)
	for range int(DefaultTiming().Expire/DefaultTiming().Renew) + 2 {
		last.process.step(p.t.Context())
		p.clock.Step(DefaultTiming().Renew)
	}
	last.process.step(p.t.Context())
	if err := last.process.Check(); err != nil {
		p.rt.Fatalf("the last one does not get the seat: %v; %v", err, last.process.Ready(nil))
	}
}

// Whatever happens in whatever order, two never write, and when there is one left it gets the seat.
func TestSimulation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &play{world: newWorld(t), rt: rt, sites: []*site{{memory: newLeases()}, {memory: newLeases()}, {memory: newLeases()}}}
		for range rapid.IntRange(10, 80).Draw(rt, "steps") {
			p.act()
			p.check()
		}
		p.checkEnd()
	})
}

// Wherever a process ends between two writes, the next one of the same installation has the seat as soon as it is
// quiet, and not later.
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
