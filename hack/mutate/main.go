// Command mutate changes a package in small ways, one at a time, and says which of the changes its tests find.
//
//	mutate --package=./internal/import --files=decide.go --count=60 --seed=1 -- ARGUMENTS...
//	mutate --package=./internal/import --list=races.yaml -- ARGUMENTS...
//
// The first form changes one token each, and the seed says which. The second one takes out what a list names. Each of
// the ARGUMENTS has flags for a run of the tests, as in '-test.run=^TestDecide'; a later run comes only if the
// earlier ones have found nothing.
//
// All changes are compiled into one program, which an environment variable has follow one of them: what
// takes long is to compile the tests, not to run them. The files themselves are never changed. Changes that
// do not compile do not count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	pkg := flags.String("package", "./internal/import", "whose tests run, as a path")
	files := flags.String("files", "decide.go", "of that package, separated by commas: where tokens are changed")
	count := flags.Int("count", 60, "how many tokens are changed")
	seed := flags.Uint64("seed", 1, "says which tokens are changed, and to what")
	list := flags.String("list", "", "file with changes by name, instead")
	only := flags.String("only", "", "a part of the names of changes: others are left out")
	atLeast := flags.Int("at-least", -1, "how many changes have to be found; default is all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("say with which flags the tests run")
	}
	candidates, err := changesOf(*pkg, *list, strings.Split(*files, ","), *seed)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "archelon-mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := build{dir: dir, pkg: *pkg}
	mutants, err := b.compile(ctx, named(candidates, *only), *list == "")
	if err != nil {
		return err
	}
	if *list == "" {
		mutants = mutants[:min(*count, len(mutants))]
	}
	return b.try(ctx, mutants, flags.Args(), *atLeast)
}

// changesOf returns more changes of tokens than are wanted, for not all of them compile, or those of a list.
func changesOf(pkg, list string, files []string, seed uint64) ([]mutant, error) {
	if list != "" {
		return listed(list)
	}
	for i, file := range files {
		files[i] = filepath.Join(pkg, file)
	}
	return drawn(files, seed)
}

func named(all []mutant, part string) []mutant {
	var some []mutant
	for _, m := range all {
		if strings.Contains(m.name, part) {
			some = append(some, m)
		}
	}
	return some
}

// try runs the tests with each of the changes, after it has run them without any.
func (b build) try(ctx context.Context, mutants []mutant, stages []string, atLeast int) error {
	if found, err := b.test(ctx, mutant{}, stages); err != nil || found != "" {
		return errors.Join(fmt.Errorf("the tests fail without any change: %s", found), err)
	}
	missed := 0
	for _, m := range mutants {
		found, err := b.test(ctx, m, stages)
		if err != nil {
			return err
		}
		if found == "" {
			missed++
			found = "NOT FOUND"
		}
		fmt.Printf("%s: %s\n", m.name, found)
	}
	fmt.Printf("%d of %d changes are found\n", len(mutants)-missed, len(mutants))
	if atLeast < 0 {
		atLeast = len(mutants)
	}
	if len(mutants)-missed < atLeast {
		return fmt.Errorf("at least %d have to be found", atLeast)
	}
	return nil
}
