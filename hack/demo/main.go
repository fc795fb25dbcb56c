// Command demo shows imports as they happen, on real API servers: a management cluster, the
// Rancher stand-in, two workload clusters, and the manager under the roles of config/rbac. It plays
// CAPI itself, with the objects in examples/. Everything listens on loopback, lives below one
// temporary directory, and ends with the demo.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes; that of an interrupt is what shells expect.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

var (
	errInterrupted = errors.New("interrupted")
	errOrphaned    = errors.New("the program that started the demo has ended")
)

func main() {
	os.Exit(command(os.Args[1:]))
}

// command returns the exit code, so that nothing deferred is lost to os.Exit.
func command(args []string) int {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	once := flags.Bool("once", false, "end with the exit code 0 when everything was imported and is cleaned up again, instead of staying up")
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitUsage
	}
	tell := run
	switch rest := flags.Args(); {
	case len(rest) == 1 && rest[0] == "identity":
		tell = runIdentity
	case len(rest) == 1 && rest[0] == "fleet":
		tell = runFleet
	case len(rest) == 1 && rest[0] == "hostclaim":
		tell = runHostClaim
	case len(rest) > 0:
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; there are three stories besides: identity, fleet and hostclaim\n", rest[0])
		return exitUsage
	}
	// What client libraries have to say, of connections that end with their server for example, is no part of the story.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())

	// The signals stay caught to the end: a second Ctrl-C must not cut the clean-up short.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() { cancel(endOf(ctx, signals)) }()

	err := tell(ctx, newPrinter(os.Stdout), *once)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitInterrupted
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitFailed
	}
}
