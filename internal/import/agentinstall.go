package importer

import (
	"context"
	"fmt"
	"net/url"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// openSite opens a workload cluster by its kubeconfig.
func (r *Reconciler) openSite(ctx context.Context, _ types.NamespacedName, from kubeconfig.Source) (site, error) {
	cluster, err := r.Workloads.Get(ctx, from)
	return agent.Site{Client: cluster, PodSecurity: r.AgentPodSecurity}, err
}

// installAgent is the slow part of an import. It runs as a job.
func (r *Reconciler) installAgent(
	ctx context.Context, key types.NamespacedName, management managementCluster, want wish, begun start,
) outcome.Outcome {
	// The next try comes after a pause. A client that waits for it would be kept for every cluster that fails.
	defer r.Workloads.Forget(want.kubeconfig)
	cause, err := r.tryInstallAgent(ctx, key, management, want, begun)
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
	ctx context.Context, key types.NamespacedName, management managementCluster, want wish, begun start,
) (agent.Cause, error) {
	if !begun.ready() {
		defer r.halves.leave(key)
	} else if left := r.halves.end(key, begun.input); left != nil {
		return agent.Unknown, r.finishAgent(ctx, key, management, left)
	}
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
	if state.Exists && !begun.ready() {
		r.halves.keep(key, remainder{}) // Everything is left to do: of an agent that is there somebody may have to be asked first.
		return agent.Unknown, begun.halt()
	}
	step("register")
	terms, err := r.registrationTerms(ctx, management.name)
	if err != nil {
		return agent.Unknown, err
	}
	i := &installation{
		key: key, management: management, want: want, cluster: cluster, agent: state,
		registered: terms.registration.Tokens(), server: terms.server.String(), checksum: terms.trust.CAChecksum(),
		start: begun,
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
	if !i.ready() {
		if objects, err = r.applyFirst(ctx, i, objects, permitted.force); err != nil {
			return err
		}
	}
	if err := r.apply(ctx, i.key, i.cluster, objects, permitted.force); err != nil {
		return err
	}
	if permitted.replaces {
		r.replacements.note(i.key, r.Clock.Now())
	}
	step("")
	said(ctx, i.management.name)
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

// apply applies objects of a manifest.
func (r *Reconciler) apply(
	ctx context.Context, key types.NamespacedName, cluster applier, objects []*unstructured.Unstructured, force bool,
) error {
	warned, err := cluster.Install(ctx, objects, force)
	r.warnings.note(key, warned)
	if err != nil {
		return fmt.Errorf("applying the import manifest: %w", err)
	}
	return nil
}

// applyFirst applies all objects but the one that registers, which it returns if Rancher has become ready meanwhile.
// Otherwise it keeps that, and ends the installation.
func (r *Reconciler) applyFirst(
	ctx context.Context, i *installation, objects []*unstructured.Unstructured, force bool,
) ([]*unstructured.Unstructured, error) {
	first, last := lastly(objects)
	if err := r.apply(ctx, i.key, i.cluster, first, force); err != nil {
		return nil, err
	}
	cluster := &managementv3.Cluster{}
	if err := r.inRancher().Get(ctx, client.ObjectKey{Name: i.management.name}, cluster); err != nil {
		return nil, fmt.Errorf("getting the v3 Rancher cluster: %w", err)
	}
	if viewOf(cluster).prepared() {
		return last, nil
	}
	r.halves.keep(i.key, remainder{input: i.input, cluster: i.cluster, objects: last})
	return nil, i.halt()
}

// finishAgent applies what is left of an installation that ended before Rancher was ready. It takes nothing over: who
// else has an agent there now is found out by the conflict, and by the next try.
func (r *Reconciler) finishAgent(
	ctx context.Context, key types.NamespacedName, management managementCluster, left *remainder,
) error {
	defer r.Metrics.timeJob("apply")("")
	if err := r.apply(ctx, key, left.cluster, left.objects, false); err != nil {
		return err
	}
	said(ctx, management.name)
	return nil
}

// said logs that an agent was applied.
func said(ctx context.Context, management string) {
	ctrl.LoggerFrom(ctx).Info("Applied Rancher's agent", "rancherCluster", management)
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
