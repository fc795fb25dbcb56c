package simulation

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"
)

// ErrOutage is what requests fail with that go wrong.
var ErrOutage = apierrors.NewServiceUnavailable("simulated outage")

// Schedule draws what happens next in a world, and has writes go wrong.
type Schedule struct {
	// T draws.
	T *rapid.T
	// Script says by label what is drawn where there is no T: in a story that is told. What it does not name is the first.
	Script map[string]string
	// Faulty is what befalls the next write: a crash or a lost answer, before it is carried out
	// or after. Empty is nothing.
	Faulty string
}

// Pick draws one of some words.
func (s *Schedule) Pick(label string, from ...string) string {
	if s.T == nil {
		return cmp.Or(s.Script[label], from[0])
	}
	return rapid.SampledFrom(from).Draw(s.T, label)
}

// Index draws one of n.
func (s *Schedule) Index(label string, n int) int {
	if s.T == nil {
		i, _ := strconv.Atoi(s.Script[label])
		return min(i, n-1)
	}
	return rapid.IntRange(0, n-1).Draw(s.T, label)
}

// Disturb draws what befalls the next write. More can be drawn than what Befall knows.
func (s *Schedule) Disturb(more ...string) {
	s.Faulty = s.Pick("fault", append([]string{"crash before", "crash after", "lost before", "lost after"}, more...)...)
}

// Befall is called before a write is carried out and after it, and has it go wrong.
func (s *Schedule) Befall(answered bool) error {
	when := "before"
	if answered {
		when = "after"
	}
	switch s.Faulty {
	case "crash " + when:
		s.Faulty = ""
		panic(Crash{})
	case "lost " + when:
		s.Faulty = ""
		return ErrOutage
	}
	return nil
}

// Deliver has a process see an event, if there is one.
func (s *Schedule) Deliver(ctx context.Context, process *Process) {
	if behind := process.Cache.Behind(); len(behind) > 0 {
		process.Deliver(ctx, rapid.SampledFrom(behind).Draw(s.T, "kind"))
	}
}

// Work has a process work on a request, if there is one, and calls a function if it dies of that. A
// run fails of an outage alone.
func (s *Schedule) Work(ctx context.Context, process *Process, died func()) {
	if process.Queued() == 0 {
		return
	}
	lives, err := process.Work(ctx, s.Index("request", process.Queued()))
	if !lives {
		died()
	} else if err != nil && !errors.Is(err, ErrOutage) {
		s.T.Fatalf("a run failed: %v", err)
	}
}
