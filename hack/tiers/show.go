package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// event is what go test says with -json; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// note begins what a test logs to have it shown even when it passes.
const note = "note: "

// mustNotRepeat matches names of tests whose findings a second attempt would hide: what they try is drawn at random.
var mustNotRepeat = regexp.MustCompile(`Simulation|^Fuzz|^TestUpheaval$`)

// showTo prints what go test says, and adds times and failures of tests to the files that have a name.
func showTo(timesPath, failuresPath string, in io.Reader, out io.Writer) error {
	times, err := appendTo(timesPath)
	if err != nil {
		return err
	}
	defer func() { _ = times.Close() }()
	failures, err := appendTo(failuresPath)
	if err != nil {
		return err
	}
	defer func() { _ = failures.Close() }()
	return show(in, out, times, failures)
}

func appendTo(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// show prints the events of go test as it does without -json: of what passes a line for each package, of what
// fails everything. It adds notes.
func show(in io.Reader, out, times, failures io.Writer) error {
	w := &watched{
		out: out, times: times, failures: failures,
		said: map[string]*strings.Builder{}, suites: map[string]bool{}, crashed: map[string]string{}, failed: map[string]bool{},
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			_, _ = fmt.Fprintln(out, lines.Text()) // It is not from a test: go itself has something to say.
			continue
		}
		switch e.Action {
		case "build-output":
			_, _ = io.WriteString(out, e.Output)
		case "output":
			w.output(e)
		case "pass", "fail", "skip":
			w.ended(e)
		}
	}
	return lines.Err()
}

// watched is what is known of tests that run.
type watched struct {
	out, times, failures io.Writer

	said    map[string]*strings.Builder // what was printed, by package, and by package and test
	suites  map[string]bool             // suites of Ginkgo, which report times and failures of specs themselves
	crashed map[string]string           // packages whose process crashed, and how
	failed  map[string]bool             // packages of which a test failed
}

func (w *watched) output(e event) {
	key := e.Package + " " + e.Test
	if w.said[key] == nil {
		w.said[key] = &strings.Builder{}
	}
	w.said[key].WriteString(e.Output)
	if _, text, ok := strings.Cut(e.Output, ".go:"); ok && strings.Contains(text, ": "+note) {
		_, _ = io.WriteString(w.out, e.Output)
	}
	w.suites[key] = w.suites[key] || strings.HasPrefix(e.Output, "Running Suite: ")
	if crash := crashOf(e.Output); crash != "" {
		w.crashed[e.Package] = crash
	}
}

func (w *watched) ended(e event) {
	key := e.Package + " " + e.Test
	if text := w.said[key]; text != nil {
		_, _ = io.WriteString(w.out, shown(e, text.String()))
	}
	delete(w.said, key)
	if e.Action == "fail" {
		_, _ = io.WriteString(w.failures, w.failure(e))
	}
	if e.Test != "" && e.Action != "skip" && !w.suites[key] {
		_, _ = fmt.Fprintf(w.times, "%.3f\t%s\t%s\n", e.Elapsed, e.Package, e.Test)
	}
}

// failure returns the line for a test or package that failed, or nothing if other lines say what to run again.
func (w *watched) failure(e event) string {
	if e.Test == "" {
		if why := w.crashed[e.Package]; why != "" || !w.failed[e.Package] {
			return fmt.Sprintf("%s\t%s failed as a whole: %s\n", final, e.Package, cmp.Or(why, "see above"))
		}
		return ""
	}
	w.failed[e.Package] = true
	switch {
	case w.suites[e.Package+" "+e.Test]:
		return fmt.Sprintf("%s\t%s\n", suite, e.Package)
	case strings.Contains(e.Test, "/"):
		return ""
	case mustNotRepeat.MatchString(e.Test):
		return fmt.Sprintf("%s\t%s of %s draws what it tries\n", final, e.Test, e.Package)
	default:
		return fmt.Sprintf("%s\t^%s$\n", e.Package, e.Test)
	}
}

// crashOf returns what a line says of the end of a process after which its other tests did not run, or of a data race.
func crashOf(line string) string {
	for _, crash := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		if strings.HasPrefix(line, crash) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// shown is what go test shows of a test or package that has ended.
func shown(e event, said string) string {
	if e.Action == "fail" {
		return said
	}
	if e.Test != "" {
		return ""
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") || strings.HasPrefix(line, "\t") {
			return line
		}
	}
	return ""
}
