// Command cattle-cluster-agent stands in for Rancher's agent in a Pod of a workload cluster. It takes no arguments: the
// manifest that an importer applied, or the clean-up Job, tells it everything by its variables and its volume.
// KUBECONFIG, if set, takes the place of the Pod's ServiceAccount.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/archelon-io/archelon/test/standin/agent"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cattle-cluster-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	opts, err := agent.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		if opts.Config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
			return fmt.Errorf("reading KUBECONFIG: %w", err)
		}
	}
	return agent.Run(ctx, opts)
}
