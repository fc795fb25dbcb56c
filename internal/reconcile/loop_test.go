package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// step is an action that answers with an error, and notes that it was done.
type step struct {
	name   string
	answer error
}

func (s step) String() string { return s.name }

func (s step) Do(_ context.Context, by *[]string) error {
	*by = append(*by, s.name)
	return s.answer
}

// What a run does with actions that succeed, fail, or are overtaken, is the same for all controllers.
func TestRun(t *testing.T) {
	broken := errors.New("broken")
	gone, later := Outdated("secrets", "a"), ctrl.Result{RequeueAfter: time.Minute}
	for name, c := range map[string]struct {
		actions            []Action[*[]string]
		observing, publish error
		noFailed, silent   bool
		failing            error

		does   []string
		result ctrl.Result
		err    string
	}{
		"nothing to do":           {does: []string{"observe", "decide", "publish"}, result: later},
		"observing fails":         {observing: broken, does: []string{"observe"}, err: "broken"},
		"publishing fails":        {publish: broken, does: []string{"observe", "decide", "publish"}, err: "broken"},
		"publishing is overtaken": {publish: fmt.Errorf("writing: %w", gone), does: []string{"observe", "decide", "publish"}},
		"acts and ends": {
			actions: []Action[*[]string]{step{"a", nil}, step{"b", nil}}, does: []string{"observe", "decide", "a", "b"},
		},
		"the first is overtaken": {
			actions: []Action[*[]string]{step{"a", gone}, step{"b", nil}}, does: []string{"observe", "decide", "a"},
		},
		"the first fails": {
			actions: []Action[*[]string]{step{"a", broken}, step{"b", nil}},
			does:    []string{"observe", "decide", "a", "report: a: broken"}, err: "a: broken",
		},
		"the first fails, and so does its report": {
			actions: []Action[*[]string]{step{"a", broken}}, failing: errors.New("unreported"),
			does: []string{"observe", "decide", "a", "report: a: broken"}, err: "a: broken\nunreported",
		},
		"the first fails, and its report is overtaken": {
			actions: []Action[*[]string]{step{"a", broken}}, failing: gone,
			does: []string{"observe", "decide", "a", "report: a: broken"}, err: "a: broken",
		},
		"failures are not reported": {
			actions: []Action[*[]string]{step{"a", broken}}, noFailed: true, does: []string{"observe", "decide", "a"}, err: "a: broken",
		},
		"looks again once": {
			actions: []Action[*[]string]{step{"a", nil}}, silent: true,
			does: []string{"observe", "decide", "a", "observe", "decide", "publish"}, result: later,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var did []string
			steps := Steps[int, []Action[*[]string], *[]string]{
				Observe: func(context.Context, types.NamespacedName) (int, error) {
					did = append(did, "observe")
					return 0, c.observing
				},
				Decide:  func(int) []Action[*[]string] { did = append(did, "decide"); return c.actions },
				Actions: func(d []Action[*[]string]) []Action[*[]string] { return d },
				Publish: func(context.Context, int, []Action[*[]string]) (ctrl.Result, error) {
					did = append(did, "publish")
					return later, c.publish
				},
				Failed: func(_ context.Context, _ int, _ []Action[*[]string], _ Action[*[]string], cause error) error {
					did = append(did, "report: "+cause.Error())
					return c.failing
				},
				Silent: c.silent,
			}
			if c.noFailed {
				steps.Failed = nil
			}
			result, err := Run(t.Context(), ctrl.Request{}, &did, steps)
			if !slices.Equal(did, c.does) {
				t.Errorf("did %s, want %s", strings.Join(did, ", "), strings.Join(c.does, ", "))
			}
			if result != c.result || fmt.Sprint(err) != fmt.Sprint(map[bool]any{true: nil, false: c.err}[c.err == ""]) {
				t.Errorf("got %v and %v, want %v and %q", result, err, c.result, c.err)
			}
		})
	}
}
