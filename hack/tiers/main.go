// Command tiers runs targets of make, until one fails, and says at the end how long each took and which tests were the
// slowest.
//
//	tiers lint test-unit          runs these targets
//	tiers 'lint unit + api' e2e   runs lint and unit beside api, whose output comes when it has ended, and then e2e
//	tiers 'nice lint + api'       has lint take what time of processors api leaves
//	go test -json | tiers -       prints what go test would without -json, and notes how long tests took
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// timesFile is the environment variable that names the file with the times of tests. Package
	// test/report has the form of its lines.
	timesFile = "ARCHELON_TIMES"
	// slowest is how many tests are named.
	slowest = 10
	// collector has the garbage collectors of all that is started run a quarter as often as by default: there is more
	// memory than processor time. One that is set already has precedence.
	collector = "GOGC=400"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tiers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if slices.Equal(args, []string{"-"}) {
		return showTo(os.Getenv(timesFile), os.Stdin, os.Stdout)
	}
	dir, err := os.MkdirTemp("", "archelon-tiers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	times := filepath.Join(dir, "times")
	all := &runs{out: os.Stdout, run: func(out io.Writer, command ...string) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = slices.Concat([]string{collector}, os.Environ(), []string{timesFile + "=" + times})
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, out
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return 0, err
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
	}}
	began := time.Now()
	for _, arg := range args {
		all.together(arg)
	}
	tests, err := read(times)
	if err != nil {
		return err
	}
	report(os.Stdout, time.Since(began), all.tiers, tests)
	return all.failed
}

// timed is how long something took, and of that the processor time, where it is known.
type timed struct {
	took, used time.Duration
	what       string
}

// read returns the times of tests. A file that does not exist has none: nothing was tested.
func read(path string) ([]timed, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var tests []timed
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		number, what, _ := strings.Cut(lines.Text(), "\t")
		seconds, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		tests = append(tests, timed{took: time.Duration(seconds * float64(time.Second)), what: strings.ReplaceAll(what, "\t", ": ")})
	}
	return tests, lines.Err()
}

// report says how long tiers took, some of them beside others, and the slowest tests.
func report(out io.Writer, took time.Duration, tiers, tests []timed) {
	_, _ = fmt.Fprintln(out, "\nTime of each tier, and of processors:")
	all := timed{took: took, what: "all"}
	for _, tier := range tiers {
		all.used += tier.used
	}
	for _, tier := range append(slices.Clip(tiers), all) {
		_, _ = fmt.Fprintf(out, "%8s %8s  %s\n", tier.took.Round(time.Second), tier.used.Round(time.Second), tier.what)
	}
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b timed) int { return int(b.took - a.took) })
	_, _ = fmt.Fprintf(out, "\nThe slowest of %d tests and specs:\n", len(tests))
	for _, test := range tests[:min(slowest, len(tests))] {
		_, _ = fmt.Fprintf(out, "%7.1fs  %s\n", test.took.Seconds(), test.what)
	}
}
