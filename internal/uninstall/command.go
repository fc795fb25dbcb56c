package uninstall

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Name is the argument that chooses this command.
const Name = "uninstall"

// Command runs "archelon uninstall" with its arguments and prints what it does.
func Command(ctx context.Context, args []string, out io.Writer) error {
	opts := NewOptions()
	flags := pflag.NewFlagSet("archelon "+Name, pflag.ContinueOnError)
	opts.AddFlags(flags)
	// controller-runtime registers it and reads it.
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		flags.AddGoFlag(kubeconfig)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see --help", rest[0])
	}
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the management cluster: %w", err)
	}
	return Run(ctx, config, opts, out)
}
