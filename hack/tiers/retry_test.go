package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// said is what a target writes to the file with failures at each attempt, and fails then. An attempt beyond passes.
type said []string

func TestRunAll(t *testing.T) {
	const spec = "Edge: Two Archelons does nothing"
	cases := map[string]struct {
		reason  string
		unit    said
		ran     []string
		flaky   []string
		failure string
	}{
		"Passes": {"Nothing is run twice.", nil, []string{"make test-unit", "make test-e2e"}, nil, ""},
		"Flaky": {
			"What failed once is run again by itself and shown.",
			said{"/module/pkg/edge\t" + spec + "\n/module/pkg/edge\t" + spec + "\nexample.com/m/a\t^TestB$\nexample.com/m/a\t^TestA$\n"},
			[]string{"make test-unit", "make test-unit PKG=./pkg/edge FOCUS=" + spec, "make test-unit PKG=example.com/m/a FOCUS=^TestA$|^TestB$", "make test-e2e"},
			[]string{"flaky: ./pkg/edge: " + spec, "flaky: example.com/m/a: ^TestA$|^TestB$"}, "",
		},
		"Broken": {
			"What fails twice fails.", said{"a\t^TestA$\n", "a\t^TestA$\n"},
			[]string{"make test-unit", "make test-unit PKG=a FOCUS=^TestA$"}, nil, "make test-unit: two attempts at a failed: exit status 2",
		},
		"Final": {
			"A panic is not run again, whatever else failed.", said{"a\t^TestA$\n!\tpanic: oops\n"},
			[]string{"make test-unit"}, nil, "make test-unit: exit status 2 (no second attempt: panic: oops)",
		},
		"Crashed": {
			"A suite that did not report what failed has specs that did not run.", said{"?\texample.com/m/pkg/fleet\n?\texample.com/m/pkg/edge\n/module/pkg/edge\tE\n"},
			[]string{"make test-unit"}, nil, "make test-unit: exit status 2 (no second attempt: example.com/m/pkg/fleet crashed)",
		},
		"Reported": {
			"A suite that did report is run again.", said{"?\texample.com/m/pkg/edge\n/module/pkg/edge\tE\n"},
			[]string{"make test-unit", "make test-unit PKG=./pkg/edge FOCUS=E", "make test-e2e"}, []string{"flaky: ./pkg/edge: E"}, "",
		},
		"Unknown": {
			"What does not compile has no tests that failed.", said{""},
			[]string{"make test-unit"}, nil, "make test-unit: exit status 2 (no second attempt: no test is known to have failed)",
		},
		"Many": {
			"If many fail, something is broken.", said{"a\tA\na\tB\na\tC\nb\tA\nb\tB\nb\tC\n"},
			[]string{"make test-unit"}, nil, "make test-unit: exit status 2 (no second attempt: more than 5 tests failed)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &makes{failures: filepath.Join(t.TempDir(), "failures"), unit: tc.unit}
			all := &tiers{root: "/module", failures: m.failures, out: io.Discard, run: m.run}
			failure := ""
			if err := all.runAll([]string{"test-unit", "test-e2e"}); err != nil {
				failure = err.Error()
			}
			if failure != tc.failure || !slices.Equal(m.ran, tc.ran) || !slices.Equal(all.flaky, tc.flaky) {
				t.Errorf("%s\nfailed with %q, want %q\n%s%s", tc.reason, failure, tc.failure, cmp.Diff(tc.ran, m.ran), cmp.Diff(tc.flaky, all.flaky))
			}
		})
	}
}

// makes plays make: test-unit fails at each attempt that unit has an entry for, and everything else passes.
type makes struct {
	failures string
	unit     said
	ran      []string
}

func (m *makes) run(env []string, command ...string) (time.Duration, error) {
	line := strings.Replace(strings.Join(command, " "), " --no-print-directory", "", 1)
	for _, variable := range env {
		if strings.HasPrefix(variable, "FOCUS=") {
			line += " " + variable
		}
	}
	m.ran = append(m.ran, line)
	if command[2] != "test-unit" || len(m.unit) == 0 {
		return time.Second, nil
	}
	text := m.unit[0]
	if m.unit = m.unit[1:]; text == "" {
		return time.Second, errors.New("exit status 2")
	}
	return time.Second, errors.Join(os.WriteFile(m.failures, []byte(text), 0o600), errors.New("exit status 2"))
}

func TestNoSecondAttempt(t *testing.T) {
	attempts := 0
	all := &tiers{failures: filepath.Join(t.TempDir(), "failures"), once: []string{"test-race"}, out: io.Discard}
	all.run = func([]string, ...string) (time.Duration, error) {
		attempts++
		return 0, errors.Join(os.WriteFile(all.failures, []byte("a\t^TestA$\n"), 0o600), errors.New("exit status 2"))
	}
	if err := all.runAll([]string{"test-race", "test-e2e"}); err == nil || attempts != 1 || len(all.ran) != 1 {
		t.Errorf("got error %v after %d attempts at %v", err, attempts, all.ran)
	}
}
