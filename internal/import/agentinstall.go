package importer

import (
	"context"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// openSite opens a workload cluster by its kubeconfig.
func (r *Reconciler) openSite(ctx context.Context, _ types.NamespacedName, from workload.Kubeconfig) (site, error) {
	cluster, err := r.Workloads.Get(ctx, from)
	return agent.Site{Client: cluster}, err
}

// installAgent is the slow part of an import. It runs as a job.
func (r *Reconciler) installAgent(ctx context.Context, key types.NamespacedName, management managementCluster, want wish) outcome.Outcome {
	// The next try comes after a pause. A client that waits for it would be kept for every cluster that fails.
	defer r.Workloads.Forget(want.kubeconfig)
	err := r.tryInstallAgent(ctx, key, management, want)
	out := outcome.FromError(err, archelonv1.ConnectingAgentReason)
	if out.Kind == outcome.KindFail && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Installing Rancher's agent failed", "reason", out.Reason)
	}
	return out
}

func (r *Reconciler) tryInstallAgent(ctx context.Context, key types.NamespacedName, management managementCluster, want wish) error {
	step := r.Metrics.timeJob("open")
	cluster, err := r.open(ctx, key, want.kubeconfig)
	if err != nil {
		return fmt.Errorf("opening the workload cluster: %w", err)
	}
	step("inspect")
	state, err := cluster.Inspect(ctx)
	if err != nil {
		return fmt.Errorf("looking at the agent: %w", err)
	}
	step("register")
	terms, err := r.registrationTerms(ctx, management.name)
	if err != nil {
		return err
	}
	permitted, err := r.permit(ctx, &installation{
		key: key, management: management, want: want, cluster: cluster, agent: state,
		server: terms.server.String(), checksum: terms.trust.CAChecksum(),
	})
	if err != nil {
		return err
	}
	if !permitted.install {
		return r.requestDeployment(ctx, management, state)
	}
	step("guard")
	if err := cluster.NoCleanup(ctx); err != nil {
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
	if err := cluster.Install(ctx, objects, permitted.force); err != nil {
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
	if state, err = cluster.Inspect(ctx); err != nil {
		return fmt.Errorf("looking at the agent that was installed: %w", err)
	}
	return r.requestDeployment(ctx, management, state)
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
