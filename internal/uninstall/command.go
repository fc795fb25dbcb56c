package uninstall

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Name is that of the command.
const Name = "uninstall"

// Command returns "uninstall", which prints what it does.
func Command() *cobra.Command {
	opts := NewOptions()
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Release all that an instance holds, before it is uninstalled",
		Long: "Print what an instance holds. With --yes, stop its manager and remove the finalizers of Archelon from all of that.\n" +
			"Rancher clusters and their agents stay, unless --delete-rancher-clusters is given. The chart runs it as a hook. It can be\n" +
			"interrupted, and run again at any time.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctrl.SetLogger(klog.Background())
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the management cluster: %w", err)
			}
			return Run(ctrl.SetupSignalHandler(), config, opts, cmd.OutOrStdout())
		},
	}
	opts.AddFlags(cmd.Flags())
	// controller-runtime registers it and reads it.
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		cmd.Flags().AddGoFlag(kubeconfig)
	}
	return cmd
}
