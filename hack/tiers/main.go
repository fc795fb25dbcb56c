// Command tiers runs targets of make one after the other, until one fails, and prints at the end how long each took,
// which tests were the slowest, and which were flaky.
//
//	tiers test-unit test-e2e            runs these targets
//	tiers -once=lint,test-race TARGET   gives the tests of these targets no second attempt
//	go test -json | tiers -             prints what go test prints without -json, and notes times and failures of tests
//
// Tests that failed get a second attempt, in a process of their own: see retry.go.
package main

import (
	"bufio"
	"context"
	"flag"
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
	// timesFile is the environment variable that names the file with the times of tests. Package test/report has the
	// form of its lines.
	timesFile = "ARCHELON_TIMES"
	// slowest is how many tests are named.
	slowest = 20
	// collector has the garbage collectors of all programs run a quarter as often as by default: there is more memory
	// than processor time. A GOGC that is set already has precedence.
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
		return showTo(os.Getenv(timesFile), os.Getenv(failuresFile), os.Stdin, os.Stdout)
	}
	flags := flag.NewFlagSet("tiers", flag.ContinueOnError)
	once := flags.String("once", "", "the `targets` whose tests get no second attempt, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "archelon-tiers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	times := filepath.Join(dir, "times")
	all := &tiers{
		root: root, failures: filepath.Join(dir, "failures"), once: strings.Split(*once, ","), out: os.Stdout,
		run: func(env []string, command ...string) (time.Duration, error) {
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Env = slices.Concat([]string{collector}, os.Environ(), []string{timesFile + "=" + times}, env)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stdout
			err := cmd.Run()
			if cmd.ProcessState == nil {
				return 0, err
			}
			return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
		},
	}
	began := time.Now()
	failed := all.runAll(flags.Args())
	tests, err := read(times)
	if err != nil {
		return err
	}
	report(os.Stdout, time.Since(began), all.ran, tests)
	for _, flaky := range all.flaky {
		fmt.Println(flaky)
	}
	return failed
}

// timed is how long something took, and how much processor time of that, where it is known.
type timed struct {
	took, used time.Duration
	what       string
}

// read returns the times of tests, none if the file does not exist.
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

// report prints how long tiers took, and the slowest tests.
func report(out io.Writer, took time.Duration, tiers, tests []timed) {
	_, _ = fmt.Fprintln(out, "\nTime of each tier, and of processors:")
	all := timed{took: took, what: "all"}
	for _, tier := range tiers {
		all.used += tier.used
	}
	for _, tier := range append(slices.Clip(tiers), all) {
		_, _ = fmt.Fprintf(out, "%8s %8s  %s\n", tier.took.Round(time.Second), tier.used.Round(time.Second), tier.what)
	}
	if len(tests) == 0 {
		return
	}
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b timed) int { return int(b.took - a.took) })
	_, _ = fmt.Fprintf(out, "\nThe slowest of %d tests and specs:\n", len(tests))
	for _, test := range tests[:min(slowest, len(tests))] {
		_, _ = fmt.Fprintf(out, "%7.1fs  %s\n", test.took.Seconds(), test.what)
	}
}
