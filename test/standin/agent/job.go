package agent

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

// runJob is the clean-up Job. A failed Pod is replaced by the Job controller, so there is no retry here.
func runJob(ctx context.Context, opts Options) error {
	opts.Logger.Info("clean-up sleeps, so that Rancher can let go of the cluster", "for", opts.Sleep)
	if !pause(ctx, opts.Sleep) {
		opts.Logger.Info("clean-up ends before it began")
		return nil
	}
	config, err := apiServer(opts)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for the API server: %w", err)
	}
	jobs, err := FindCleanups(ctx, client)
	if err != nil {
		return err
	}
	itself, err := HasRancher(ctx, client)
	if err != nil {
		return err
	}
	if itself {
		opts.Logger.Info("clean-up found Rancher itself and removes nothing but its Job")
	} else {
		deleted, err := Clean(ctx, client)
		if err != nil {
			return err
		}
		opts.Logger.Info("cluster was cleaned up", "namespaces", deleted)
	}
	for _, job := range jobs {
		if err := job.RemoveSelf(ctx, client); err != nil {
			return err
		}
	}
	return nil
}
