package importer

import (
	"context"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// askTerms asks for what an agent is installed with. Each part of it is watched, so a change of any starts a new try at
// once. All of it is in caches.
type askTerms struct{ management string }

func (q askTerms) String() string { return "the registration of v3 Rancher cluster " + q.management }

func (q askTerms) read(ctx context.Context, r *Reconciler, o *Observation) error {
	var t agentTerms
	t.registration, t.registrationErr = r.Tokens.Fingerprint(ctx, q.management)
	if t.server, t.serverErr = r.Settings.ServerURL(ctx); t.serverErr == nil && t.registrationErr == nil {
		t.current, t.currentErr = r.Tokens.FilledInFor(ctx, q.management, t.server)
	}
	t.settings, t.settingsErr = r.Settings.Fingerprint(ctx)
	t.values, t.valuesErr = r.Settings.AgentSettings(ctx)
	if t.from, t.fromErr = kubeconfig.Of(o.cluster); t.fromErr != nil {
		t.from = kubeconfig.Default(o.key)
	}
	for _, secret := range []struct {
		reader  client.Reader
		key     client.ObjectKey
		version *string
		created *time.Time
	}{
		{r.Client, t.from.Secret, &t.kubeconfig, new(time.Time)},
		{r.tokenSecrets, client.ObjectKey{Namespace: q.management, Name: rancher.DefaultTokenSecretName}, &t.token, &t.tokened},
	} {
		var err error
		if *secret.version, *secret.created, err = versionOf(ctx, secret.reader, secret.key); err != nil {
			return fmt.Errorf("looking for Secret %s: %w", secret.key, err)
		}
	}
	o.terms = t
	return nil
}

// askHalf asks whether an installation may begin before Rancher is ready.
type askHalf struct{}

func (askHalf) String() string { return "whether the agent may be installed but for its Deployment" }

func (askHalf) read(_ context.Context, r *Reconciler, o *Observation) error {
	o.half = r.halves.begin(o.key, r.Clock.Now())
	return nil
}

// input digests what the installation of the agent depends on.
func (d *deciding) input(want wish) string {
	parts := []string{d.management.name, d.terms.registration, d.terms.settings}
	if d.management.known {
		// Each loss of the connection is looked into once. Before the first there is none to lose.
		parts = append(parts, d.management.since)
	}
	parts = append(parts, d.terms.kubeconfig, d.terms.token, want.input(), fmt.Sprintf("gone %t", d.agentGone))
	return strings.Join(parts, "\n")
}

// wish returns what the CAPI cluster and its v3 Cluster want of the agent.
func (d *deciding) wish() (wish, error) {
	if err := d.terms.fromErr; err != nil {
		return wish{}, err
	}
	if err := d.terms.valuesErr; err != nil {
		return wish{}, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	spec, err := rancher.AgentSpecOf(d.management.object, d.terms.values)
	if err != nil {
		return wish{}, err
	}
	settings := agent.Settings{
		Cluster: d.management.name, Digest: spec.Digest, Env: spec.Env, Dropped: spec.Dropped, Strict: spec.Strict,
	}
	own, err := importManagementCluster(d.cluster.Annotations)
	if err != nil {
		return wish{}, invalidSetting(archelonv1.ImportManagementClusterAnnotation, err)
	}
	return wish{
		cluster: d.cluster.UID, takeOver: approvedTakeOver(d.cluster, d.management.object), managementCluster: own, settings: settings,
		kubeconfig: d.terms.from,
	}, nil
}

// work has the agent looked at in the workload cluster, and installed where it is missing. It takes place in the
// background: the run does not wait for it.
type work struct {
	start
	management managementCluster
	want       wish
	// watched: a watch tells of the kubeconfig.
	watched bool
}

func (a work) String() string {
	return fmt.Sprintf("look at the agent of v3 Rancher cluster %s in the workload cluster, and install it if it cannot connect",
		a.management.name)
}

func (a work) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	r.registrations.arrive(o.key, r.Clock.Now())
	logger, key, management := ctrl.LoggerFrom(ctx), o.key, a.management
	management.object = nil // A job outlives this copy.
	if a.ready() && r.halves.waits(key) {
		r.jobs.LookAgain(key)
	}
	o.result, o.ended = r.jobs.Do(key, a.input, func(ctx context.Context) outcome.Outcome {
		out := r.installAgent(ctrl.LoggerInto(ctx, logger), key, management, a.want, a.start)
		if out.Kind == outcome.KindWait && !a.watched {
			out.Kind, out.After = outcome.KindPoll, kubeconfigRecheck
		}
		return out
	})
	o.worked = true
	return outcome.Done()
}
