package importer

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// cleanupRecheck is when the end of a clean-up in a workload cluster, which is not watched, is looked for again at first.
const cleanupRecheck = 5 * time.Second

// installAgent is the slow part of an import. It runs as a job.
func (r *Reconciler) installAgent(ctx context.Context, key types.NamespacedName, management managementCluster, want wish) outcome.Outcome {
	// The next try comes after a pause. A client that waits for it would be kept for every cluster that fails.
	defer r.Workloads.Forget(key)
	err := r.tryInstallAgent(ctx, key, management, want)
	out := outcome.FromError(err, archelonv1.ConnectingAgentReason)
	if out.Kind == outcome.KindFail && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Installing Rancher's agent failed", "reason", out.Reason)
	}
	return out
}

func (r *Reconciler) tryInstallAgent(ctx context.Context, key types.NamespacedName, management managementCluster, want wish) error {
	step := r.Metrics.timeJob("open")
	cluster, err := r.Workloads.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("opening the workload cluster: %w", err)
	}
	step("inspect")
	agent, err := cluster.Agent(ctx)
	if err != nil {
		return fmt.Errorf("looking at the agent: %w", err)
	}
	step("register")
	terms, err := r.registrationTerms(ctx, management.name)
	if err != nil {
		return err
	}
	permitted, err := r.permit(ctx, &installation{
		key: key, management: management, want: want, cluster: cluster, agent: agent,
		server: terms.server.String(), checksum: terms.trust.CAChecksum(),
	})
	if err != nil {
		return err
	}
	if !permitted.install {
		return r.requestDeployment(ctx, management, agent)
	}
	step("guard")
	if err := noCleanup(ctx, cluster); err != nil {
		return err
	}
	if !terms.registration.FilledInFor(terms.server) {
		return fromEarlierServer()
	}
	step("download")
	manifest, err := r.Downloader.Manifest(ctx, terms.registration, terms.trust)
	if err != nil {
		return fmt.Errorf("downloading the import manifest: %w", err)
	}
	step("apply")
	objects := manifest.Objects()
	want.settings.Mark(objects)
	if err := cluster.Apply(ctx, objects, permitted.force); err != nil {
		return fmt.Errorf("applying the import manifest: %w", err)
	}
	if permitted.replaces {
		r.replacements.note(key, r.Clock.Now())
	}
	step("")
	ctrl.LoggerFrom(ctx).Info("Applied Rancher's agent", "rancherCluster", management.name)
	if !management.deployed {
		return nil
	}
	// What Rancher added to the Deployment before stays there, if it was there.
	if agent, err = cluster.Agent(ctx); err != nil {
		return fmt.Errorf("looking at the agent that was installed: %w", err)
	}
	return r.requestDeployment(ctx, management, agent)
}

// terms is what Rancher says about how an agent gets to it.
type terms struct {
	registration rancher.Registration
	trust        rancher.Trust
	server       *url.URL
}

// registrationTerms reads from Rancher how the agent of a v3 Cluster gets to it.
func (r *Reconciler) registrationTerms(ctx context.Context, management string) (terms, error) {
	var found terms
	var err error
	if found.registration, err = r.Tokens.Registration(ctx, management); err != nil {
		return terms{}, fmt.Errorf("reading the registration: %w", err)
	}
	if found.trust, err = r.Settings.Trust(ctx); err != nil {
		return terms{}, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	if found.server, err = r.Settings.ServerURL(ctx); err != nil {
		return terms{}, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	return found, nil
}

// noCleanup fails as long as a clean-up of Rancher is running in the workload cluster: it would remove the new agent as well.
func noCleanup(ctx context.Context, cluster *workload.Client) error {
	pending, err := cluster.CleanupPending(ctx)
	if err != nil {
		return fmt.Errorf("looking for Rancher's clean-up: %w", err)
	}
	if pending != "" {
		return &outcome.Problem{
			Kind: outcome.KindPoll, Reason: archelonv1.WaitingForCleanupReason, After: cleanupRecheck,
			Message: fmt.Sprintf("Rancher's clean-up of an earlier import is still at work in the workload cluster: %s has not ended; if that lasts, look at its events there", pending),
		}
	}
	return nil
}
