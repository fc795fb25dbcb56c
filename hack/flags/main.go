// Command flags writes the tables of flags into a page of the documentation, from the definitions that --help prints.
// What is between the tables is written by hand.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // registers --kubeconfig, as it does in the manager

	"github.com/archelon-io/archelon/internal/options"
)

func main() {
	page := flag.String("page", filepath.Join("docs", "operations", "flags.md"), "page to write the tables into")
	flag.Parse()
	if err := run(*page); err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		os.Exit(1)
	}
}

func run(page string) error {
	opts, err := options.New()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	after, err := fill(string(before), flags)
	if err != nil {
		return fmt.Errorf("filling in %s: %w", page, err)
	}
	return os.WriteFile(page, []byte(after), 0o644)
}
