package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is the environment variable with the number of the change that the program follows.
const variable = "ARCHELON_MUTANT"

// build compiles a package together with changes of it and of others.
type build struct {
	dir, pkg string
}

func (b build) program() string { return filepath.Join(b.dir, "changed.test") }

// compile compiles the tests with all changes that compile. The others are left out if they may be.
func (b build) compile(ctx context.Context, mutants []mutant, lenient bool) ([]mutant, error) {
	for i := range mutants {
		mutants[i].id = i + 1
	}
	for {
		if len(mutants) == 0 {
			return nil, errors.New("there is nothing to change")
		}
		packages, err := b.overlay(mutants)
		if err != nil {
			return nil, err
		}
		output, err := b.goes(ctx, append([]string{"build"}, packages...)...)
		if err == nil {
			break
		}
		bad := map[int]bool{}
		for _, found := range regexp.MustCompile(`mutant_(\d+)\.go`).FindAllStringSubmatch(output, -1) {
			n, _ := strconv.Atoi(found[1])
			bad[n] = true
		}
		if len(bad) == 0 || !lenient {
			return nil, fmt.Errorf("%w\n%s", err, output)
		}
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return bad[m.id] })
	}
	if output, err := b.goes(ctx, "test", "-c", "-vet=off", "-o", b.program(), b.pkg); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	return mutants, nil
}

// goes runs go build or go test with the changes. All errors are told, so that all changes
// are known that do not compile.
func (b build) goes(ctx context.Context, args ...string) (string, error) {
	args = slices.Insert(args, 1, "-gcflags=-e", "-overlay="+filepath.Join(b.dir, "overlay.json"))
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(output), err
}

// overlay writes the changed files, and which files they stand for. It returns the packages that have changes.
func (b build) overlay(mutants []mutant) ([]string, error) { //nolint:gocognit // most of it passes errors on
	byFile := map[string][]mutant{}
	for _, m := range mutants {
		for _, e := range m.edits {
			byFile[e.file] = append(byFile[e.file], mutant{id: m.id, edits: []edit{e}})
		}
	}
	replace, packages := map[string]string{}, map[string]bool{}
	write := func(path, content string) error {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		replace[absolute] = filepath.Join(b.dir, strconv.Itoa(len(replace))+".go")
		return os.WriteFile(replace[absolute], []byte(content), 0o600)
	}
	for file, changes := range byFile {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		functions, err := functionsOf(file, raw)
		if err != nil {
			return nil, err
		}
		content, err := changed(file, string(raw), functions, changes)
		if err != nil {
			return nil, err
		}
		name := regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(content)[1]
		if err := write(file, content); err != nil {
			return nil, err
		}
		if dir := filepath.Dir(file); !packages[dir] {
			packages[dir] = true
			follows := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar archelonMutant = os.Getenv(%q)\n", name, variable)
			if err := write(filepath.Join(dir, "zz_mutant.go"), follows); err != nil {
				return nil, err
			}
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	var named []string
	for dir := range packages {
		named = append(named, "./"+filepath.Clean(dir))
	}
	return slices.Sorted(slices.Values(named)), os.WriteFile(filepath.Join(b.dir, "overlay.json"), raw, 0o600)
}

// changed has each function begin with its changed bodies, of which none is used unless the variable says so.
func changed(file, content string, functions []function, changes []mutant) (string, error) {
	bodies := map[function]map[int][]edit{}
	for _, m := range changes {
		at := slices.IndexFunc(functions, func(f function) bool {
			return f.open < m.edits[0].from && m.edits[0].to <= f.end
		})
		if at < 0 {
			return "", fmt.Errorf("%s: a change is outside of any function", file)
		}
		f := functions[at]
		if bodies[f] == nil {
			bodies[f] = map[int][]edit{}
		}
		bodies[f][m.id] = append(bodies[f][m.id], m.edits...)
	}
	slices.SortFunc(functions, func(a, b function) int { return b.open - a.open })
	for _, f := range functions {
		if bodies[f] == nil {
			continue
		}
		var out strings.Builder
		out.WriteString(content[:f.open+1])
		for _, id := range slices.Sorted(maps.Keys(bodies[f])) {
			fmt.Fprintf(&out, "\nif archelonMutant == %q {\n//line mutant_%d.go:1\n", strconv.Itoa(id), id)
			out.WriteString(edited(content, f, bodies[f][id]))
			if !f.returns {
				out.WriteString("\nreturn")
			}
			out.WriteString("\n}")
		}
		fmt.Fprintf(&out, "\n//line %s:%d\n", filepath.Base(file), f.line)
		out.WriteString(content[f.open+1:])
		content = out.String()
	}
	return content, nil
}

// edited returns what is between the braces of a function, changed.
func edited(content string, f function, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	at := f.open + 1
	for _, e := range edits {
		out.WriteString(content[at:e.from] + e.text)
		at = e.to
	}
	out.WriteString(content[at:f.end])
	return out.String()
}

// only returns where a text is that a file has once.
func only(content, text string) (int, error) {
	if text == "" || strings.Count(content, text) != 1 {
		return 0, fmt.Errorf("%q is to be there once", text)
	}
	return strings.Index(content, text), nil
}

// test runs the tests with a change, and returns what found it, nothing if nothing did.
func (b build) test(ctx context.Context, m mutant, stages []string) (string, error) {
	for _, stage := range stages {
		args := append(strings.Fields(stage), "-test.failfast", "-test.timeout=5m")
		cmd := exec.CommandContext(ctx, b.program(), args...)
		cmd.Dir, cmd.Env = b.pkg, append(os.Environ(), variable+"="+strconv.Itoa(m.id))
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			return reason(output.String()), nil
		case err != nil:
			return "", err
		}
	}
	return "", nil
}

var (
	told   = regexp.MustCompile(`\[rapid\] (failed after \d+ tests: .*|panic after \d+ tests: .*)`)
	failed = regexp.MustCompile(`--- FAIL: (\S+)`)
	panics = regexp.MustCompile(`panic: .*`)
)

// reason is what the output of tests says of why they failed: the innermost test, and what a simulation says.
func reason(output string) string {
	var found []string
	if tests := failed.FindAllStringSubmatch(output, -1); len(tests) > 0 {
		found = append(found, tests[len(tests)-1][1])
	}
	if said := told.FindStringSubmatch(output); said != nil {
		found = append(found, said[1])
	} else if died := panics.FindString(output); died != "" {
		found = append(found, died)
	}
	return cmp.Or(strings.Join(found, ": "), "a failure that says nothing")
}
