// Command release prepares what a release consists of besides its image. It needs no network.
//
//	release notes --version v1.2.3                          prints what the changelog says of a version
//	release chart --version v1.2.3 --image NAME --digest D  writes a copy of the chart that is of that version and names its image
//	release provenance --revision COMMIT                    prints, in a job of GitHub, where and from what the release was built
//	release settle --epoch N FILE.tgz                       takes the time of packaging out of an archive, so that whoever packages again gets the same
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say notes, chart, provenance or settle")
	}
	switch args[0] {
	case "notes":
		return runNotes(args[1:])
	case "chart":
		return runChart(args[1:])
	case "provenance":
		return runProvenance(args[1:])
	case "settle":
		return runSettle(args[1:])
	default:
		return fmt.Errorf("unknown command %q: say notes, chart, provenance or settle", args[0])
	}
}

func runNotes(args []string) error {
	flags := flag.NewFlagSet("notes", flag.ExitOnError)
	version := flags.String("version", "", "tag of the release")
	changelog := flags.String("changelog", "CHANGELOG.md", "the changelog")
	_ = flags.Parse(args) // it exits
	found, err := read(*changelog, *version)
	if err != nil {
		return err
	}
	fmt.Println(found.text)
	return nil
}

func runChart(args []string) error {
	flags := flag.NewFlagSet("chart", flag.ExitOnError)
	r := release{}
	flags.StringVar(&r.version, "version", "", "tag of the release")
	flags.StringVar(&r.image, "image", "", "image of the release, with its registry and without a tag")
	flags.StringVar(&r.digest, "digest", "", "digest of the image")
	changelog := flags.String("changelog", "CHANGELOG.md", "the changelog")
	from := flags.String("chart", filepath.Join("charts", "archelon"), "directory of the chart")
	to := flags.String("out", "", "directory for the copy, which is not there yet")
	_ = flags.Parse(args) // it exits
	if *to == "" {
		return errors.New("--out is needed")
	}
	found, err := read(*changelog, r.version)
	if err != nil {
		return err
	}
	r.changes = found.changes
	if err := r.stage(*from, *to); err != nil {
		return fmt.Errorf("writing the chart of %s: %w", r.version, err)
	}
	return nil
}

func runProvenance(args []string) error {
	flags := flag.NewFlagSet("provenance", flag.ExitOnError)
	revision := flags.String("revision", "", "commit that the release was built from")
	_ = flags.Parse(args) // it exits
	if *revision == "" {
		return errors.New("--revision is needed")
	}
	return provenance(os.Stdout, *revision, os.Getenv)
}

func runSettle(args []string) error {
	flags := flag.NewFlagSet("settle", flag.ExitOnError)
	epoch := flags.Int64("epoch", 0, "time of all that has one, in seconds since 1970")
	_ = flags.Parse(args) // it exits
	if flags.NArg() != 1 {
		return errors.New("usage: release settle --epoch N FILE.tgz")
	}
	return settle(flags.Arg(0), time.Unix(*epoch, 0).UTC())
}
