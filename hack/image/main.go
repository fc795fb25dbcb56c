// Command image builds the container image of the manager, without a container engine and without a registry: a static
// binary for each platform in an image of its own, an index over them, and a bill of materials beside each.
//
//	image build --layout DIR [flags]    into an OCI layout; prints the digest
//	image push --layout DIR NAME:TAG    the same to a registry; prints name and digest
//	image archive --out FILE NAME:TAG   for one platform into an archive, as docker load and kind load image-archive take it
//	image extract --out DIR NAME:TAG PATH...    programs of somebody's image in a registry, for tests
//
// The digest follows from the sources, the flags and the version of Go, so whoever builds a release again can compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say build, push, archive or extract")
	}
	switch args[0] {
	case "build":
		return runBuild(ctx, args[1:])
	case "push":
		return runPush(ctx, args[1:])
	case "archive":
		return runArchive(ctx, args[1:])
	case "extract":
		return runExtract(ctx, args[1:])
	default:
		return fmt.Errorf("unknown command %q: say build, push, archive or extract", args[0])
	}
}

func runBuild(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	r := recipe{pkg: ".", program: manager, user: nonroot}
	flags.StringVar(&r.source, "source", filepath.Join("..", ".."), "directory of the module to build")
	flags.StringVar(&r.version, "version", "devel", "version for the labels")
	flags.StringVar(&r.revision, "revision", "unknown", "commit for the labels")
	flags.StringVar(&r.ldflags, "ldflags", "", "flags for Go's linker")
	flags.StringVar(&r.base, "base", scratch, "image to build on, as a registry knows it")
	dir := flags.String("layout", "", "directory for the OCI layout; what was built there before goes")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	epoch := flags.Int64("epoch", 0, "time of all that has one, in seconds since 1970: reproducible builds take that of the commit")
	_ = flags.Parse(args) // it exits
	if *dir == "" {
		return errors.New("--layout is needed")
	}
	r.created = v1.Time{Time: time.Unix(*epoch, 0).UTC()}
	for name := range strings.SplitSeq(*platforms, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return fmt.Errorf("--platforms: %w", err)
		}
		r.platforms = append(r.platforms, *platform)
	}
	built, err := r.build(ctx)
	if err != nil {
		return err
	}
	if err := built.write(*dir, r.version); err != nil {
		return fmt.Errorf("writing %s: %w", *dir, err)
	}
	digest, err := built.index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func runPush(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("push", flag.ExitOnError)
	dir := flags.String("layout", "", "directory of the OCI layout")
	_ = flags.Parse(args) // it exits
	if *dir == "" || flags.NArg() != 1 {
		return errors.New("usage: image push --layout DIR NAME:TAG")
	}
	pushed, err := push(ctx, *dir, flags.Arg(0))
	if err != nil {
		return err
	}
	fmt.Println(pushed)
	return nil
}

// runArchive builds images for tests, of the manager and of what stands in for others.
func runArchive(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("archive", flag.ExitOnError)
	r := recipe{base: scratch, created: v1.Time{Time: time.Unix(0, 0).UTC()}}
	flags.StringVar(&r.source, "source", filepath.Join("..", ".."), "directory of the module to build")
	flags.StringVar(&r.pkg, "package", ".", "package to build, as seen from there")
	flags.StringVar(&r.program, "program", manager, "name of the binary")
	flags.StringVar(&r.user, "user", nonroot, "user and group that it runs as")
	flags.StringVar(&r.version, "version", "devel", "version for the labels")
	flags.StringVar(&r.revision, "revision", "unknown", "commit for the labels")
	flags.StringVar(&r.ldflags, "ldflags", "", "flags for Go's linker")
	out := flags.String("out", "", "file to write")
	architecture := flags.String("arch", runtime.GOARCH, "architecture of the nodes that are to run it")
	_ = flags.Parse(args) // it exits
	if *out == "" || flags.NArg() != 1 {
		return errors.New("usage: image archive --out FILE NAME:TAG")
	}
	return r.archive(ctx, v1.Platform{OS: "linux", Architecture: *architecture}, *out, flags.Arg(0))
}

func runExtract(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("extract", flag.ExitOnError)
	out := flags.String("out", "", "directory to write the programs to")
	architecture := flags.String("arch", runtime.GOARCH, "architecture of the image")
	_ = flags.Parse(args) // it exits
	if *out == "" || flags.NArg() < 2 {
		return errors.New("usage: image extract --out DIR NAME:TAG PATH [PATH...]")
	}
	return extract(ctx, flags.Arg(0), v1.Platform{OS: "linux", Architecture: *architecture}, *out, flags.Args()[1:])
}
