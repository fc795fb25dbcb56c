package importer

import (
	"context"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// permission is whether the agent is to be installed, and how.
type permission struct {
	// install says that the agent is to be installed. Otherwise what is there will connect by itself.
	install bool
	// force takes fields over from whoever has set them.
	force bool
	// replaces says that the agent there has other credentials: it is one that somebody else may install again.
	replaces bool
}

// installation is one try to install the agent: what is wanted, and what was found.
type installation struct {
	key        types.NamespacedName
	management managementCluster
	want       wish
	// cluster is the workload cluster, and agent what is in it.
	cluster site
	agent   agent.State
	// registered are the tokens of its registration.
	registered []string
	// server and checksum are Rancher's URL and that of its CA.
	server, checksum string
	start
}

// permit decides whether the agent may be installed into a workload cluster.
func (r *Reconciler) permit(ctx context.Context, i *installation) (permission, error) {
	r.contests.forget(i.key)
	if !i.agent.Exists {
		return permission{install: true, force: i.management.served()}, r.checkIdentity(ctx, i)
	}
	tokens := i.registered
	if !i.agent.HasToken(tokens) { // Before the first contact an agent has the token with which it registers.
		var err error
		if tokens, err = r.Tokens.Accepted(ctx, i.management.name); err != nil {
			return permission{}, fmt.Errorf("reading the accepted tokens: %w", err)
		}
	}
	able, why := i.agent.CanConnect(i.server, tokens, i.checksum)
	if able {
		if !i.agent.Outdated(i.want.settings, i.management.known) {
			return permission{}, nil
		}
		why = "its settings were changed after it was installed"
	}
	says := evidenceOf(i.agent, tokens, i.server)
	found, err := ownership(says, i.management.name, i.want.cluster, r.lookup(ctx))
	if err != nil {
		return permission{}, err
	}
	r.contests.note(i.key, found)
	if err := found.refusal(i.want.takeOver); err != nil {
		return permission{}, err
	}
	permitted := permission{install: true, force: i.management.served() || found.standing != agentUnclaimed}
	permitted.replaces = i.agent.CredentialsFound && (!says.accepted || !says.here)
	if permitted.replaces {
		if err := r.replacements.check(i.key, r.Clock.Now()); err != nil {
			return permission{}, err
		}
	}
	logger := ctrl.LoggerFrom(ctx).WithValues("rancherCluster", i.management.name, "because", why)
	if found.standing == agentOurs {
		logger.Info("Rancher's agent is installed again")
		return permitted, nil
	}
	if err := r.checkIdentity(ctx, i); err != nil {
		return permission{}, err
	}
	logger.Info("The agent of another Rancher cluster is replaced", "approved", found.from)
	return permitted, nil
}

// lookup returns a reader of v3 Clusters. It is live: the cache has those that name a CAPI cluster only.
func (r *Reconciler) lookup(ctx context.Context) func(string) (*managementv3.Cluster, error) {
	return func(name string) (*managementv3.Cluster, error) {
		cluster := &managementv3.Cluster{}
		err := r.liveInRancher().Get(ctx, client.ObjectKey{Name: name}, cluster)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the v3 Rancher cluster of the agent: %w", err)
		}
		return cluster, nil
	}
}

// checkIdentity refuses to install an agent into the cluster that Rancher runs in, unless the CAPI cluster asks for it.
// Rancher shows that cluster already, as local, and deleting the Rancher cluster would have Rancher clean up where it
// runs. One that was connected before was allowed then, and costs no request.
func (r *Reconciler) checkIdentity(ctx context.Context, i *installation) error {
	if i.management.served() || i.want.managementCluster {
		return nil
	}
	own, err := r.identity.of(ctx, r.liveInRancher())
	if err != nil {
		return err
	}
	uid, err := i.cluster.UID(ctx)
	if err != nil {
		return fmt.Errorf("asking the workload cluster who it is: %w", err)
	}
	if own == "" || uid != own {
		return nil
	}
	return &outcome.Problem{
		Kind: outcome.KindStall, Reason: archelonv1.ManagementClusterReason,
		Message: fmt.Sprintf("This is the cluster that Rancher runs in, and Rancher lists it already as \"local\". Set label %s to \"false\" on this Cluster. "+
			"To install Rancher's agent there anyway, set annotation %s to \"true\"", archelonv1.ImportLabel, archelonv1.ImportManagementClusterAnnotation),
	}
}

// approvedTakeOver returns whose agent may be taken over by annotation, unless that is used up.
func approvedTakeOver(cluster, management client.Object) string {
	value := cluster.GetAnnotations()[archelonv1.TakeOverAgentAnnotation]
	if management.GetAnnotations()[archelonv1.TakenOverAnnotation] == rancher.Digest(value) {
		return ""
	}
	return value
}

// noteTakeOver has the annotation for a take-over be used up once the agent has connected, and count again after it was
// removed. Without it two owners that ask for the same agent would take it from each other for ever.
func (d *deciding) noteTakeOver() Decision {
	object, behind := d.management.object, d.managements[d.management.name]
	value := d.cluster.Annotations[archelonv1.TakeOverAgentAnnotation]
	noted := object.Annotations[archelonv1.TakenOverAnnotation]
	note := "null"
	switch {
	case value == "" && noted == "", behind.ahead, behind.noted,
		value != "" && (!d.management.connected || noted == rancher.Digest(value)):
		return pass()
	case value != "":
		note = fmt.Sprintf("%q", rancher.Digest(value))
	}
	return act(noteTakenOver{
		name:  object.Name,
		patch: fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, object.UID, archelonv1.TakenOverAnnotation, note),
	})
}

// noteTakenOver notes on a v3 Cluster whether the annotation for a take-over is used up.
type noteTakenOver struct {
	name  string
	patch []byte
}

func (a noteTakenOver) String() string {
	return fmt.Sprintf("v3 Rancher cluster %s: note whether its agent was taken over", a.name)
}

func (a noteTakenOver) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	after := *o.managements[a.name]
	after.object = after.object.DeepCopy()
	if err := r.patchUID(ctx, after.object, a.patch); err != nil {
		return failure("noting that the agent was taken over", err)
	}
	after.noted = true
	o.managements[a.name] = &after
	return outcome.Done()
}
