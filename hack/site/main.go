// Command site builds the site of the documentation from the Markdown of the repository, and records a program
// as a picture of a terminal.
//
//	site build --root=DIR --out=DIR
//	site record --out=FILE.svg --title=TEXT -- COMMAND...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"

	"github.com/archelon-io/archelon/hack/site/recording"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("what to do: build or record")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("out", "", "where to write")
	switch args[0] {
	case "build":
		root := flags.String("root", ".", "the root of the repository")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return build(*root, *out)
	case "record":
		title := flags.String("title", "", "what stands above the terminal")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return record(*out, *title, flags.Args())
	default:
		return fmt.Errorf("%s: there are build and record only", args[0])
	}
}

// record runs a command, shows what it prints, and draws it when the command has succeeded.
func record(file, title string, command []string) error {
	if file == "" || len(command) == 0 {
		return errors.New("record needs --out and a command")
	}
	reel := recording.Reel{Title: title, Copy: os.Stdout}
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &reel, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return os.WriteFile(file, reel.SVG(), 0o644)
}
