package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// failuresFile is the environment variable that names the file with failures of tests. Each of its lines has a
	// package, a tab and a regular expression that selects the test. Package test/report writes the lines of Ginkgo's
	// suites, show those of other tests.
	failuresFile = "ARCHELON_FAILED"
	// final begins a line with the reason why there must be no second attempt.
	final = "!"
	// suite begins a line with a suite of Ginkgo that failed. Unless it wrote lines itself it crashed.
	suite = "?"
	// mostFlaky is how many failed tests of a tier get a second attempt. If more fail, something is broken.
	mostFlaky = 5
)

// tiers are the targets that ran.
type tiers struct {
	// root is the directory of the module.
	root string
	// failures is the path of the file with failures.
	failures string
	// once are the targets without a second attempt.
	once []string
	out  io.Writer
	// run runs a command with further environment variables and returns the processor time that it used.
	run func(env []string, command ...string) (time.Duration, error)

	ran   []timed
	flaky []string
}

// runAll runs targets one after the other, until one fails.
func (t *tiers) runAll(targets []string) error {
	for _, target := range targets {
		began := time.Now()
		used, err := t.one(target)
		t.ran = append(t.ran, timed{time.Since(began), used, target})
		if err != nil {
			return fmt.Errorf("make %s: %w", target, err)
		}
	}
	return nil
}

// one runs a target. Tests that failed are run once more, each package by itself, from a clean state: a Go test in
// another process, a spec with another suite, and a spec of an ordered container with all specs of that container.
func (t *tiers) one(target string) (time.Duration, error) {
	command := []string{"make", "--no-print-directory", target}
	used, failed := t.attempt(nil, command)
	if failed == nil || slices.Contains(t.once, target) {
		return used, failed
	}
	again, err := readFailures(t.failures, t.root)
	if err != nil {
		return used, fmt.Errorf("%w (no second attempt: %w)", failed, err)
	}
	for _, f := range again {
		_, _ = fmt.Fprintf(t.out, "\nSecond attempt: make %s PKG=%s FOCUS=%q\n", target, f.pkg, f.focus)
		more, err := t.attempt([]string{"FOCUS=" + f.focus}, append(slices.Clone(command), "PKG="+f.pkg))
		if used += more; err != nil {
			return used, fmt.Errorf("two attempts at %s failed: %w", f.pkg, err)
		}
		t.flaky = append(t.flaky, fmt.Sprintf("flaky: %s: %s", f.pkg, f.focus))
	}
	return used, nil
}

// attempt runs a command that writes its failures to an empty file.
func (t *tiers) attempt(env, command []string) (time.Duration, error) {
	if err := os.Remove(t.failures); err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	return t.run(append(env, failuresFile+"="+t.failures), command...)
}

// failure is what to run again of a package.
type failure struct{ pkg, focus string }

// readFailures returns what to run again, or an error that says why nothing is.
func readFailures(path, root string) ([]failure, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, errors.New("no test is known to have failed")
	}
	if err != nil {
		return nil, err
	}
	focus := map[string][]string{}
	var suites []string
	count := 0
	for line := range strings.Lines(string(raw)) {
		pkg, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch pkg {
		case final:
			return nil, errors.New(what)
		case suite:
			suites = append(suites, what)
			continue
		}
		if relative, err := filepath.Rel(root, pkg); err == nil && filepath.IsAbs(pkg) {
			pkg = "./" + filepath.ToSlash(relative)
		}
		if slices.Contains(focus[pkg], what) {
			continue // Several specs of an ordered container are one.
		}
		if focus[pkg] = append(focus[pkg], what); count == mostFlaky {
			return nil, fmt.Errorf("more than %d tests failed", mostFlaky)
		}
		count++
	}
	for _, suite := range suites {
		reported := func(pkg string) bool { return strings.HasSuffix(suite, strings.TrimPrefix(pkg, ".")) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(focus)), reported) {
			return nil, fmt.Errorf("%s crashed", suite)
		}
	}
	var again []failure
	for pkg, list := range focus {
		slices.Sort(list)
		again = append(again, failure{pkg, strings.Join(list, "|")})
	}
	slices.SortFunc(again, func(a, b failure) int { return strings.Compare(a.pkg, b.pkg) })
	return again, nil
}
