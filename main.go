// Command archelon imports Cluster API clusters into Rancher.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	// The image has no bundle of CA certificates, and with agent-tls-mode=system-store that is what Rancher's certificate is verified with. A
	// bundle of the system comes first, also one that is mounted.
	_ "golang.org/x/crypto/x509roots/fallback"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/internal/version"
)

// gcPercent makes the garbage collector run two and a half times as often as Go's default. What an import allocates is
// gone in a moment, and memory is what a Pod is limited by; docs/development/performance.md has the price. The
// environment variable GOGC has precedence.
const gcPercent = 40

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "archelon:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	limitMemory(os.Getenv, debug.SetMemoryLimit)
	if len(args) > 0 && args[0] == uninstall.Name {
		return uninstall.Command(ctrl.SetupSignalHandler(), args[1:], os.Stdout)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	opts, err := options.New()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	flags.SortFlags = true
	opts.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see --help", rest[0])
	}
	build := version.Get()
	if opts.Version {
		_, err := fmt.Fprintln(os.Stdout, build)
		return err
	}
	notes := opts.Complete()
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, nil); err != nil {
		return fmt.Errorf("setting up the log: %w", err)
	}
	logger := klog.Background()
	ctrl.SetLogger(logger)
	logger.Info("Starting", "version", build.Version, "revision", build.Revision, "go", build.GoVersion, "platform", build.Platform)
	for _, note := range notes {
		logger.Info(note)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the management cluster: %w", err)
	}
	return setup.Run(ctrl.SetupSignalHandler(), config, opts)
}
