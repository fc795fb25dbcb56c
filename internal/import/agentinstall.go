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
	return agent.Site{Client: cluster, PodSecurity: r.AgentPodSecurity}, err
}

// installAgent is the slow part of an import. It runs as a job.
func (r *Reconciler) installAgent(ctx context.Context, key types.NamespacedName, management managementCluster, want wish) outcome.Outcome {
	// The next try comes after a pause. A client that waits for it would be kept for every cluster that fails.
	defer r.Workloads.Forget(want.kubeconfig)
	cause, err := r.tryInstallAgent(ctx, key, management, want)
	out := outcome.FromError(err, archelonv1.ConnectingAgentReason)
	if out.IsDone() {
		out.Reason, out.Message = reasonOf(cause), explain(cause)
	}
	if out.Kind == outcome.KindFail && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Installing Rancher's agent failed", "reason", out.Reason)
	}
	return out
}

// tryInstallAgent installs the agent if it cannot connect. If it can, and does not, it says why.
func (r *Reconciler) tryInstallAgent(
	ctx context.Context, key types.NamespacedName, management managementCluster, want wish,
) (agent.Cause, error) {
	step := r.Metrics.timeJob("open")
	cluster, err := r.open(ctx, key, want.kubeconfig)
	if err != nil {
		return agent.Unknown, fmt.Errorf("opening the workload cluster: %w", err)
	}
	step("inspect")
	state, err := cluster.Inspect(ctx)
	if err != nil {
		return agent.Unknown, fmt.Errorf("looking at the agent: %w", err)
	}
	step("register")
	terms, err := r.registrationTerms(ctx, management.name)
	if err != nil {
		return agent.Unknown, err
	}
	i := &installation{
		key: key, management: management, want: want, cluster: cluster, agent: state,
		registered: terms.registration.Tokens(), server: terms.server.String(), checksum: terms.trust.CAChecksum(),
	}
	permitted, err := r.permit(ctx, i)
	if err != nil {
		return agent.Unknown, err
	}
	if permitted.install {
		return agent.Unknown, r.applyAgent(ctx, i, terms, permitted, step)
	}
	r.jobs.patience.looks(key) // Also the first look of a process at an agent of before.
	if err := r.requestDeployment(ctx, management, state); err != nil {
		return agent.Unknown, err
	}
	step("diagnose")
	cause := r.diagnose(ctx, i)
	step("")
	return cause, nil
}

// applyAgent downloads the manifest of the agent and applies it.
func (r *Reconciler) applyAgent(ctx context.Context, i *installation, terms terms, permitted permission, step func(string)) error {
	step("guard")
	if err := i.cluster.NoCleanup(ctx); err != nil {
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
	i.want.settings.Mark(objects)
	warned, err := i.cluster.Install(ctx, objects, permitted.force)
	r.warnings.note(i.key, warned)
	if err != nil {
		return fmt.Errorf("applying the import manifest: %w", err)
	}
	if permitted.replaces {
		r.replacements.note(i.key, r.Clock.Now())
	}
	step("")
	ctrl.LoggerFrom(ctx).Info("Applied Rancher's agent", "rancherCluster", i.management.name)
	if !i.management.deployed {
		return nil
	}
	// What Rancher added to the Deployment before stays there, if it was there.
	state, err := i.cluster.Inspect(ctx)
	if err != nil {
		return fmt.Errorf("looking at the agent that was installed: %w", err)
	}
	return r.requestDeployment(ctx, i.management, state)
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
