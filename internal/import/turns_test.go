package importer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// turnStep is what a cluster does, and what follows.
type turnStep struct {
	do, cluster string
	given       bool     // with take
	woken       []string // in this order
}

// run returns whether a slot was given, and who was woken. The names are of those that hold
// slots when the process starts.
func (s turnStep) run(t *testing.T, turns *turns, names []string) (given bool, woken []string) {
	t.Helper()
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	switch s.do {
	case "take":
		err := turns.rebuild(t.Context(), func() (held []types.NamespacedName, err error) {
			for _, name := range names {
				held = append(held, key(name))
			}
			return held, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		given = turns.take(t.Context(), key(s.cluster))
	case "keep":
		turns.keep(key(s.cluster))
	case "leave":
		turns.leave(t.Context(), key(s.cluster))
	}
	for len(turns.come) > 0 {
		woken = append(woken, (<-turns.come).Object.GetName())
	}
	return given, woken
}

func TestTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		most   int
		held   []string // when the process starts
		steps  []turnStep
	}{
		"Order": {
			reason: "those that wait follow in the order in which they came", most: 1,
			steps: []turnStep{
				{do: "take", cluster: "a", given: true}, {do: "take", cluster: "b"}, {do: "take", cluster: "c"}, {do: "take", cluster: "b"},
				{do: "leave", cluster: "a", woken: []string{"b"}}, {do: "take", cluster: "b", given: true}, {do: "leave", cluster: "b", woken: []string{"c"}},
			},
		},
		"Held": {
			reason: "who holds a slot keeps it, however often it asks", most: 1,
			steps: []turnStep{{do: "take", cluster: "a", given: true}, {do: "take", cluster: "a", given: true}, {do: "take", cluster: "b"}},
		},
		"Left": {
			reason: "a place in the queue that is given up is nobody's", most: 1,
			steps: []turnStep{
				{do: "take", cluster: "a", given: true}, {do: "take", cluster: "b"}, {do: "take", cluster: "c"}, {do: "leave", cluster: "b"},
				{do: "leave", cluster: "a", woken: []string{"c"}},
			},
		},
		"NotWanted": {
			reason: "a slot that is given and not wanted any more goes to the next", most: 1,
			steps: []turnStep{
				{do: "take", cluster: "a", given: true}, {do: "take", cluster: "b"}, {do: "take", cluster: "c"},
				{do: "leave", cluster: "a", woken: []string{"b"}}, {do: "leave", cluster: "b", woken: []string{"c"}},
			},
		},
		"Restart": {
			reason: "what held slots before the restart holds them after it", most: 2, held: []string{"x", "y"},
			steps: []turnStep{
				{do: "take", cluster: "a", woken: []string{"x", "y"}}, {do: "take", cluster: "x", given: true}, {do: "leave", cluster: "y", woken: []string{"a"}},
			},
		},
		"Fewer": {
			reason: "after a restart with a lower limit none is given until enough have come back", most: 1, held: []string{"x", "y"},
			steps: []turnStep{
				{do: "take", cluster: "a", woken: []string{"x", "y"}}, {do: "leave", cluster: "x"}, {do: "leave", cluster: "y", woken: []string{"a"}},
			},
		},
		"Resumed": {
			reason: "one that was paused under way counts when it is resumed", most: 1,
			steps: []turnStep{
				{do: "take", cluster: "a", given: true}, {do: "take", cluster: "c"}, {do: "leave", cluster: "a", woken: []string{"c"}},
				{do: "keep", cluster: "a"}, {do: "take", cluster: "d"}, {do: "leave", cluster: "c"}, {do: "leave", cluster: "a", woken: []string{"d"}},
			},
		},
		"Stopped": {
			reason: "zero gives none, and lets those under way be", most: 0, held: []string{"x"},
			steps: []turnStep{{do: "take", cluster: "a", woken: []string{"x"}}, {do: "take", cluster: "x", given: true}, {do: "leave", cluster: "x"}, {do: "take", cluster: "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			turns := newTurns(tc.most, turnsBacklog)
			for i, s := range tc.steps {
				given, woken := s.run(t, turns, tc.held)
				if given != s.given || !slices.Equal(woken, s.woken) {
					t.Fatalf("%s: step %d, %s %s: given %t, woken %v, want %t, %v", tc.reason, i+1, s.do, s.cluster, given, woken, s.given, s.woken)
				}
				if turns.queue.Len() != len(turns.places) {
					t.Fatalf("%d in the queue and %d places", turns.queue.Len(), len(turns.places))
				}
			}
		})
	}
}

// As long as nobody knows who holds slots, none is given.
func TestNoTurnBeforeTheHoldersAreKnown(t *testing.T) {
	turns, broken := newTurns(10, turnsBacklog), errors.New("broken")
	key := types.NamespacedName{Name: "a"}
	if err := turns.rebuild(t.Context(), func() ([]types.NamespacedName, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v, want the failure", err)
	}
	if turns.take(t.Context(), key) {
		t.Error("a slot was given")
	}
	asked := 0
	for range 2 {
		if err := turns.rebuild(t.Context(), func() ([]types.NamespacedName, error) { asked++; return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 || !turns.take(t.Context(), key) {
		t.Errorf("the holders were looked for %d times, want once, and then a slot is given", asked)
	}
}

// When the controller has stopped, nobody takes what is woken.
func TestWakingEndsWithItsContext(t *testing.T) {
	turns := newTurns(turnsBacklog+2, turnsBacklog)
	if err := turns.rebuild(t.Context(), func() ([]types.NamespacedName, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turns.wake(ctx, make([]types.NamespacedName, turnsBacklog+1))
}
