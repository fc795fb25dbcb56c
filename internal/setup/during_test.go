package setup

import (
	"context"
	"errors"
	"testing"
)

func TestDuring(t *testing.T) {
	broken := errors.New("broken")
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return nil }
	fail := func(context.Context) error { return broken }
	none := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		reason     string
		run, serve func(context.Context) error
		want       error
	}{
		"RunEnds":      {reason: "services end with what they are for", run: none, serve: untilEnd},
		"RunFails":     {reason: "its error is passed on", run: fail, serve: untilEnd, want: broken},
		"ServiceFails": {reason: "an address that cannot be bound ends the process", run: untilEnd, serve: fail, want: broken},
		"NothingToDo":  {reason: "a service that is off ends nothing", run: func(context.Context) error { return nil }, serve: none},
	} {
		t.Run(name, func(t *testing.T) {
			if err := during(t.Context(), tc.run, service{name: "it", serve: tc.serve}); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%s: got %v, want %v", tc.reason, err, tc.want)
			}
		})
	}
}
