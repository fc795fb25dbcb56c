// Command bench measures what imports cost: a real management control plane, the Rancher stand-in, the real manager
// under the roles of config/rbac, and a crowd of light workload API servers. docs/development/performance.md
// says how to read its results.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes; that of an interrupt is what shells expect.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitBroken      = 3
	exitInterrupted = 130
)

// parentCheck is how often the benchmark looks whether the program that started it is still there.
const parentCheck = time.Second

var (
	errInterrupted = errors.New("interrupted")
	errOrphaned    = errors.New("the program that started the benchmark has ended")
)

func main() {
	silence()
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// silence keeps libraries from logging. klog does not like it when something runs already.
func silence() {
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
}

// command returns the exit code, so that nothing deferred is lost to os.Exit.
func command(args []string, stdout, stderr io.Writer) int {
	opts := defaultOptions()
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	opts.addFlags(flags)
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err == nil {
		if opts.Hostile > 0 && !flags.Changed("clusters") {
			opts.Clusters = hostileClusters
		}
		if err = opts.validate(flags.Args()); err != nil {
			_, _ = fmt.Fprintln(stderr, "bench:", err)
			return exitUsage
		}
	} else {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return exitUsage
	}
	// The signals stay caught to the end: a second Ctrl-C must not cut the clean-up short.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() { cancel(endOf(ctx, signals)) }()

	switch {
	case opts.Hostile > 0:
		return codeOf(ctx, soak(ctx, opts, stdout, stderr), stderr)
	case opts.Identity:
		return codeOf(ctx, identities(ctx, stdout, stderr), stderr)
	case opts.Fleet:
		return codeOf(ctx, fleet(ctx, stdout, stderr), stderr)
	case opts.HostClaim:
		runs, err := hostClaims(ctx, defaultClaimSizes(), stdout, stderr)
		if err == nil {
			err = checkClaims(runs, stdout)
		}
		return codeOf(ctx, err, stderr)
	}
	report, err := bench(ctx, opts, stderr)
	if report != nil {
		report.tables(stdout)
		if opts.Markdown {
			report.markdown(stdout)
		}
		if opts.JSON != "" {
			err = errors.Join(err, report.writeJSON(opts.JSON))
		}
		// What did not hold matters less than what went wrong.
		if broken := report.check(stdout); err == nil {
			err = broken
		}
	}
	return codeOf(ctx, err, stderr)
}

// codeOf says what went wrong, and returns the exit code for it.
func codeOf(ctx context.Context, err error, stderr io.Writer) int {
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return exitInterrupted
	case errors.Is(err, errBounds):
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return exitBroken
	default:
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
}

// endOf waits for a reason to end: a signal, or that nobody is left to send one. `go run` and make, when they are
// terminated, do not pass that on to the program they run.
func endOf(ctx context.Context, signals <-chan os.Signal) error {
	parent := os.Getppid()
	ticker := time.NewTicker(parentCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			return errInterrupted
		case <-ticker.C:
			if os.Getppid() != parent {
				return errOrphaned
			}
		}
	}
}
