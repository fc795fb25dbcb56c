package seat

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	timing := DefaultTiming()
	held := func(v view) view { v.holder = "somebody"; return v }
	parked := func(v view) view { v.parked = true; return held(v) }
	for name, tc := range map[string]struct {
		view view
		want step
	}{
		"never held":                            {view: view{}, want: watch},
		"never held, and quiet":                 {view: view{quiet: timing.Quiet}, want: take},
		"the answer was lost":                   {view: held(view{own: true, remembered: true}), want: take},
		"unknown":                               {view: held(view{}), want: watch},
		"unknown, and nearly expired":           {view: held(view{quiet: timing.Expire - 1}), want: watch},
		"unknown, and expired":                  {view: held(view{quiet: timing.Expire}), want: replace},
		"unknown, and renewed":                  {view: held(view{alive: true}), want: standBy},
		"unknown, renewed once, and expired":    {view: held(view{alive: true, quiet: time.Hour}), want: standBy},
		"unknown, and parked":                   {view: parked(view{}), want: watch},
		"unknown, parked, and expired":          {view: parked(view{quiet: timing.Expire}), want: replace},
		"remembered":                            {view: held(view{remembered: true}), want: watch},
		"remembered, and nearly quiet":          {view: held(view{remembered: true, quiet: timing.Quiet - 1}), want: watch},
		"remembered, and quiet":                 {view: held(view{remembered: true, quiet: timing.Quiet}), want: inherit},
		"remembered, and parked":                {view: parked(view{remembered: true}), want: inherit},
		"remembered, and renewed":               {view: held(view{remembered: true, alive: true}), want: forget},
		"remembered, and parked while watching": {view: parked(view{remembered: true, alive: true, quiet: time.Hour}), want: forget},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.view, timing); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTimesHaveAnOrder(t *testing.T) {
	if err := DefaultTiming().validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Timing){
		"no renewals":                     func(t *Timing) { t.Renew = 0 },
		"stale between two renewals":      func(t *Timing) { t.Fresh = t.Renew },
		"writes of two":                   func(t *Timing) { t.Quiet = t.Fresh },
		"strangers sooner than own":       func(t *Timing) { t.Expire = t.Quiet - 1 },
		"a Lease like one that is parked": func(t *Timing) { *t = Timing{Renew: 1, Fresh: 2, Quiet: 3, Expire: 1500 * time.Millisecond} },
	} {
		timing := DefaultTiming()
		change(&timing)
		if timing.validate() == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
}
