package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is what go test says with -json; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// note begins what a test logs to have it shown even when it passes.
const note = "note: "

// showTo prints what go test says, and adds the times of tests to a file, if it has a name.
func showTo(path string, in io.Reader, out io.Writer) error {
	if path == "" {
		return show(in, out, io.Discard)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return show(in, out, file)
}

// show prints the events of go test as it does without -json: of what passes a line for each package, of what
// fails everything. It adds notes.
func show(in io.Reader, out, times io.Writer) error {
	said := map[string]*strings.Builder{} // by package, and by package and test
	suites := map[string]bool{}           // of Ginkgo, which says itself how long specs took
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			_, _ = fmt.Fprintln(out, lines.Text()) // It is not from a test: go itself has something to say.
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			_, _ = io.WriteString(out, e.Output)
		case "output":
			if said[key] == nil {
				said[key] = &strings.Builder{}
			}
			said[key].WriteString(e.Output)
			if _, text, ok := strings.Cut(e.Output, ".go:"); ok && strings.Contains(text, ": "+note) {
				_, _ = io.WriteString(out, e.Output)
			}
			suites[key] = suites[key] || strings.HasPrefix(e.Output, "Running Suite: ")
		case "pass", "fail", "skip":
			if text := said[key]; text != nil {
				_, _ = io.WriteString(out, shown(e, text.String()))
			}
			if e.Test != "" && e.Action != "skip" && !suites[key] {
				_, _ = fmt.Fprintf(times, "%.3f\t%s\t%s\n", e.Elapsed, e.Package, e.Test)
			}
			delete(said, key)
		}
	}
	return lines.Err()
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
