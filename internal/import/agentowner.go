package importer

import (
	"context"
	"fmt"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
)

// ownerRecheck is when an agent of somebody else is looked at again at first: the workload cluster is not watched.
const ownerRecheck = 30 * time.Second

// anotherRancher stands in TakeOverAgentAnnotation for a Rancher whose host cannot be told.
const anotherRancher = "another-rancher"

// standing says whose an agent is that is installed and cannot connect for the Rancher cluster of this import.
type standing int

const (
	// agentUnclaimed is an agent that says nothing about where it belongs.
	agentUnclaimed standing = iota
	// agentOurs is the agent of the Rancher cluster of this import.
	agentOurs
	// agentLeftBehind is an agent of this Rancher whose cluster does not exist any more, or not for long, or is an earlier one of this import.
	agentLeftBehind
	// agentOfCluster is the agent of another Rancher cluster that lives.
	agentOfCluster
	// agentOfRancher is the agent of another Rancher.
	agentOfRancher
)

// verdict is whose agent it is.
type verdict struct {
	standing standing
	// from is what TakeOverAgentAnnotation has to hold for the agent to be taken over. It is no stranger's text any more.
	from string
}

// wish is what the import wants of the agent. All of it is part of the input of a job.
type wish struct {
	// cluster is the UID of the CAPI cluster.
	cluster types.UID
	// takeOver is the value of TakeOverAgentAnnotation, empty when it is used up.
	takeOver string
	// managementCluster allows the cluster that Rancher runs in.
	managementCluster bool
	// settings are those that the agent has to be installed with.
	settings agent.Settings
}

// evidence is what an installed agent says about where it belongs.
type evidence struct {
	// accepted: it has a token that this Rancher accepts for the v3 Cluster of this import.
	accepted bool
	// cluster is the v3 Cluster that it names, empty where somebody else than Archelon has installed it and Rancher has not done so itself yet.
	cluster string
	// url: it names a server; here: it is this Rancher; host is the host of any other, if it can be told.
	url, here bool
	host      string
}

func evidenceOf(found agent.State, accepted []string, server string) evidence {
	return evidence{
		accepted: found.HasToken(accepted), cluster: found.ClusterName, url: found.ServerURL != "", here: found.BelongsTo(server), host: found.Host(),
	}
}

// ownership tells whose agent is installed, for an import into v3 Cluster management of the CAPI cluster with the UID. lookup returns the v3
// Cluster of a name, nil if there is none; it is asked only if nothing else tells. That the agent has a token of ours, or our name, counts
// whatever its URL: server-url may have changed.
func ownership(e evidence, management string, cluster types.UID, lookup func(name string) (*managementv3.Cluster, error)) (verdict, error) {
	if e.accepted || e.cluster != "" && e.cluster == management {
		return verdict{standing: agentOurs}, nil
	}
	if e.cluster != "" {
		other, err := lookup(e.cluster)
		switch {
		case err != nil:
			return verdict{}, err
		case other == nil:
		case !other.DeletionTimestamp.IsZero(), cluster != "" && other.Labels[archelonv1.OwnerUIDLabel] == string(cluster):
			return verdict{standing: agentLeftBehind}, nil
		default:
			return verdict{standing: agentOfCluster, from: e.cluster}, nil
		}
	}
	switch {
	case e.here:
		// Rancher names its cluster within seconds of the first contact. Without a name it serves nobody.
		return verdict{standing: agentLeftBehind}, nil
	case !e.url:
		return verdict{standing: agentUnclaimed}, nil
	case e.host == "":
		return verdict{standing: agentOfRancher, from: anotherRancher}, nil
	default:
		return verdict{standing: agentOfRancher, from: e.host}, nil
	}
}

// refusal returns why the agent is not touched, nil if it may be taken over.
func (v verdict) refusal(approved string) error {
	problem := &outcome.Problem{Kind: outcome.KindPoll, After: ownerRecheck}
	switch {
	case v.standing != agentOfCluster && v.standing != agentOfRancher, v.from == approved:
		return nil
	case v.standing == agentOfCluster:
		problem.Reason = archelonv1.AgentOfAnotherClusterReason
		problem.Message = fmt.Sprintf("The workload cluster has the agent of v3 Rancher cluster %s, which would lose its connection: delete that Rancher cluster, "+
			"or take its agent over by the annotation %s: %q on this Cluster (if it is set already, remove it and set it again)",
			v.from, archelonv1.TakeOverAgentAnnotation, v.from)
	default:
		problem.Reason = archelonv1.AgentOfAnotherRancherReason
		problem.Message = fmt.Sprintf("The workload cluster has the agent of another Rancher (%s), which would lose its connection, so nothing was changed there: "+
			"delete the cluster in that Rancher, or take its agent over by the annotation %s: %q on this Cluster (if it is set already, remove it and set it again)",
			v.from, archelonv1.TakeOverAgentAnnotation, v.from)
	}
	return problem
}

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
	// server and checksum are Rancher's URL and that of its CA.
	server, checksum string
}

// permit decides whether the agent may be installed into a workload cluster.
func (r *Reconciler) permit(ctx context.Context, i *installation) (permission, error) {
	r.contests.forget(i.key)
	if !i.agent.Exists {
		return permission{install: true, force: i.management.served()}, r.checkIdentity(ctx, i)
	}
	tokens, err := r.Tokens.Accepted(ctx, i.management.name)
	if err != nil {
		return permission{}, fmt.Errorf("reading the accepted tokens: %w", err)
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

// wish returns what the CAPI cluster and its v3 Cluster want of the agent.
func (d *deciding) wish() (wish, error) {
	if err := d.terms.valuesErr; err != nil {
		return wish{}, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	settings, err := settingsOf(d.management.object, d.terms.values)
	if err != nil {
		return wish{}, err
	}
	own, err := importManagementCluster(d.cluster.Annotations)
	if err != nil {
		return wish{}, invalidSetting(archelonv1.ImportManagementClusterAnnotation, err)
	}
	return wish{
		cluster: d.cluster.UID, takeOver: approvedTakeOver(d.cluster, d.management.object), managementCluster: own, settings: settings,
	}, nil
}

// approvedTakeOver returns whose agent may be taken over by annotation, unless that is used up.
func approvedTakeOver(cluster, management client.Object) string {
	value := cluster.GetAnnotations()[archelonv1.TakeOverAgentAnnotation]
	if management.GetAnnotations()[archelonv1.TakenOverAnnotation] == digestOf(value) {
		return ""
	}
	return value
}

// input digests the wish for the input of a job.
func (w wish) input() string {
	return digestOf(fmt.Sprintf("%q %t %s", w.takeOver, w.managementCluster, w.settings.Digest))
}

// noteTakeOver has the annotation for a take-over be used up once the agent has connected, and count again after it was removed. Without it two
// owners that ask for the same agent would take it from each other for ever.
func (d *deciding) noteTakeOver() Decision {
	object, behind := d.management.object, d.managements[d.management.name]
	value := d.cluster.Annotations[archelonv1.TakeOverAgentAnnotation]
	noted := object.Annotations[archelonv1.TakenOverAnnotation]
	note := "null"
	switch {
	case value == "" && noted == "", behind.ahead, behind.noted,
		value != "" && (!d.management.connected || noted == digestOf(value)):
		return pass()
	case value != "":
		note = fmt.Sprintf("%q", digestOf(value))
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
