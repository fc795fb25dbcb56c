// Command archelon imports Cluster API clusters into Rancher.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	// The image has no bundle of CA certificates, and with agent-tls-mode=system-store that is what Rancher's certificate
	// is verified with. A bundle of the system comes first, also one that is mounted.
	_ "golang.org/x/crypto/x509roots/fallback"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/internal/uninstall"
	"github.com/archelon-io/archelon/internal/version"
)

// gcPercent makes the garbage collector run two and a half times as often as Go's default. What an import allocates is
// gone in a moment, and memory is what a Pod is limited by; docs/development/performance.md has the price. The
// environment variable GOGC has precedence.
const gcPercent = 40

func main() {
	limitMemory(os.Getenv, debug.SetMemoryLimit)
	if err := command(filepath.Base(os.Args[0])).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "archelon:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode tells what a command has found from what it could not do.
func exitCode(err error) int {
	if _, failed := errors.AsType[plan.FailedError](err); failed || errors.Is(err, check.ErrMissing) {
		return 2
	}
	return 1
}

// plugin is what the program is called for kubectl to find it: "kubectl archelon" runs it.
const plugin = "kubectl-archelon"

// command returns the manager, and the commands for people below it. As a plugin of kubectl it is these commands alone.
func command(name string) *cobra.Command {
	root := &cobra.Command{
		Use: "archelon", Short: "Import Cluster API clusters into Rancher",
		Long:          "Import Cluster API clusters into Rancher. Without a command it runs the manager, which the chart does for you.",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return options.CheckGiven(cmd.Flags()) },
	}
	if name == plugin {
		root.Use, root.Annotations = plugin, map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl archelon"}
		root.Long = "Look at Archelon, and at the CAPI clusters that it imports into Rancher."
	} else {
		root.RunE = manager(root.Flags())
	}
	root.SetFlagErrorFunc(options.SuggestFlag)
	root.AddGroup(
		&cobra.Group{ID: "clusters", Title: "Clusters:"}, &cobra.Group{ID: "installation", Title: "Installation:"},
	)
	for cmd, id := range map[*cobra.Command]string{
		status.Command(): "clusters", plan.Command(): "clusters", checks(): "installation", uninstall.Command(): "installation",
	} {
		cmd.GroupID = id
		root.AddCommand(cmd)
	}
	return root
}

// checks returns the command that looks for what the controllers need.
func checks() *cobra.Command {
	gates, err := feature.NewGates()
	if err != nil {
		return &cobra.Command{Use: "check", RunE: func(*cobra.Command, []string) error { return err }}
	}
	return check.Command(setup.ControllersOf, gates)
}

// manager binds its options to flags and returns what runs it.
func manager(flags *pflag.FlagSet) func(*cobra.Command, []string) error {
	opts, err := options.New()
	if err != nil {
		return func(*cobra.Command, []string) error { return err }
	}
	opts.AddFlags(flags)
	return func(cmd *cobra.Command, _ []string) error {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		return run(opts, cmd.OutOrStdout())
	}
}

func run(opts *options.Options, out io.Writer) error {
	build := version.Get()
	if opts.Version {
		_, err := fmt.Fprintln(out, build)
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
