package importer

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestPatience(t *testing.T) {
	const s, m = time.Second, time.Minute
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: strconv.Itoa(i)} }
	type arrivals struct {
		count    int           // the first ones
		from, by time.Duration // the first arrives then, the others one after the other
	}
	for name, tc := range map[string]struct {
		reason   string
		waiting  int // begun at the same time
		arrivals arrivals
		asked    time.Duration // about the last one
		want     time.Duration
	}{
		"Alone":        {reason: "an agent that is lost early is looked at soon", waiting: 1, asked: 30 * s},
		"Few":          {reason: "as long as there is no backlog", waiting: 10, asked: 30 * s},
		"FewLeft":      {reason: "or there is none any more", waiting: 50, arrivals: arrivals{40, 20 * s, 0}, asked: 30 * s},
		"Slow":         {reason: "others take 20 s, so this one may take 60 s", waiting: 100, arrivals: arrivals{50, 20 * s, 0}, asked: 30 * s, want: 30 * s},
		"TooSlow":      {reason: "but not more", waiting: 100, arrivals: arrivals{50, 20 * s, s}, asked: 7 * m / 2},
		"Quick":        {reason: "where others take 2 s, 30 s are long", waiting: 100, arrivals: arrivals{50, 2 * s, 0}, asked: 30 * s},
		"NoneYet":      {reason: "nobody has come through, so Rancher has time for all of them", waiting: 100, asked: 30 * s, want: 10 * s},
		"NoneAnyMore":  {reason: "none comes through for a while", waiting: 100, arrivals: arrivals{50, 20 * s, 0}, asked: 51 * s},
		"SlowOnes":     {reason: "a while is what it takes", waiting: 100, arrivals: arrivals{50, 100 * s, 0}, asked: 190 * s, want: 110 * s},
		"Unknown":      {reason: "who is not known to wait is looked at", waiting: 0, asked: 30 * s},
		"ProblemOfOld": {reason: "what lasted is no measure for others", waiting: 100, arrivals: arrivals{50, 10 * time.Hour, 0}, asked: 10*time.Hour + s},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatience(30 * s)
			for i := range tc.waiting {
				p.begin(key(i), began)
				p.begin(key(i), began.Add(time.Hour)) // It is known since when.
			}
			for i := range tc.arrivals.count {
				p.arrive(key(i), began.Add(tc.arrivals.from+time.Duration(i)*tc.arrivals.by))
			}
			if got := p.postpone(key(tc.waiting-1), began.Add(tc.asked)); got != tc.want {
				t.Errorf("%s: postponed by %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// A look that is due in a backlog which moves costs nothing, and comes when the backlog has gone.
func TestJobsWaitForABacklogThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 100)
		runs := map[types.NamespacedName]int{}
		const clusters = 40
		key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: strconv.Itoa(i), Name: "c"} }
		do := func(i int) (outcome.Outcome, bool) {
			return j.Do(key(i), "a", func(context.Context) outcome.Outcome { return outcome.Done() })
		}
		count := func(i int) { runs[key(i)]++ }
		for i := range clusters {
			do(i)
			<-j.ended
			count(i)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // fake time
		for i := range clusters / 2 {
			j.Connected(key(i))
			j.Forget(key(i))
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // fake time
		last := clusters - 1
		if out, ended := do(last); !ended || out.After != 30*time.Second {
			t.Fatalf("got %+v, %t, want the result of before and another look 60 s after the installation", out, ended)
		}
		for i := clusters / 2; i < last; i++ {
			j.Connected(key(i))
			j.Forget(key(i))
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // fake time
		if _, ended := do(last); ended {
			t.Fatal("the last one is not looked at")
		}
		<-j.ended
		if out, _ := do(last); out.After != 2*jobRecheckBase {
			t.Errorf("got %s until the next look, want twice the first pause", out.After)
		}
	})
}
