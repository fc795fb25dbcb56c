// Command tiers runs targets of make one after the other, until one fails, and says at the end how long each took and which tests were the slowest.
//
//	tiers lint test-unit        runs these targets
//	go test -json | tiers -     prints what go test would without -json, and notes how long tests took
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
	// timesFile is the environment variable that names the file with the times of tests. Package test/report has the form of its lines.
	timesFile = "ARCHELON_TIMES"
	// slowest is how many tests are named.
	slowest = 10
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
	var tiers []timed
	var failed error
	for _, target := range args {
		began := time.Now()
		cmd := exec.CommandContext(ctx, "make", "--no-print-directory", target)
		cmd.Env = append(os.Environ(), timesFile+"="+times)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		failed = cmd.Run()
		tiers = append(tiers, timed{time.Since(began), target})
		if failed != nil {
			failed = fmt.Errorf("make %s: %w", target, failed)
			break
		}
	}
	tests, err := read(times)
	if err != nil {
		return err
	}
	report(os.Stdout, tiers, tests)
	return failed
}

// timed is how long something took.
type timed struct {
	took time.Duration
	what string
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
		tests = append(tests, timed{time.Duration(seconds * float64(time.Second)), strings.ReplaceAll(what, "\t", ": ")})
	}
	return tests, lines.Err()
}

// report says how long tiers took, and the slowest tests.
func report(out io.Writer, tiers, tests []timed) {
	_, _ = fmt.Fprintln(out, "\nTime of each tier:")
	var sum time.Duration
	for _, tier := range tiers {
		_, _ = fmt.Fprintf(out, "%8s  %s\n", tier.took.Round(time.Second), tier.what)
		sum += tier.took
	}
	_, _ = fmt.Fprintf(out, "%8s  all\n", sum.Round(time.Second))
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b timed) int { return int(b.took - a.took) })
	_, _ = fmt.Fprintf(out, "\nThe slowest of %d tests and specs:\n", len(tests))
	for _, test := range tests[:min(slowest, len(tests))] {
		_, _ = fmt.Fprintf(out, "%7.1fs  %s\n", test.took.Seconds(), test.what)
	}
}
