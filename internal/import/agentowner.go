package importer

import (
	"fmt"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
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
	// agentLeftBehind is an agent of this Rancher whose cluster does not exist any more, or not for long, or is an
	// earlier one of this import.
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
	// kubeconfig is where that of the workload cluster is.
	kubeconfig kubeconfig.Source
}

// evidence is what an installed agent says about where it belongs.
type evidence struct {
	// accepted: it has a token that this Rancher accepts for the v3 Cluster of this import.
	accepted bool
	// cluster is the v3 Cluster that it names, empty where somebody else than Archelon has installed it and Rancher
	// has not done so itself yet.
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

// ownership tells whose agent is installed, for an import into v3 Cluster management of the CAPI cluster with the UID.
// lookup returns the v3 Cluster of a name, nil if there is none; it is asked only if nothing else tells. That the agent
// has a token of ours, or our name, counts whatever its URL: server-url may have changed.
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
		problem.Message = fmt.Sprintf("Rancher cluster %s would be disconnected, so Rancher's agent was not installed: the workload cluster runs the agent of %s. "+
			"Delete Rancher cluster %s in Rancher, or replace its agent once: set annotation %s to %q on this Cluster. "+
			"If the annotation has this value already, remove it first", v.from, v.from, v.from, archelonv1.TakeOverAgentAnnotation, v.from)
	default:
		problem.Reason = archelonv1.AgentOfAnotherRancherReason
		problem.Message = fmt.Sprintf("Another Rancher (%s) would lose this cluster, so Rancher's agent was not installed: the workload cluster runs the agent of that Rancher. "+
			"Delete the cluster there, or replace its agent once: set annotation %s to %q on this Cluster. If the annotation has this value already, remove it first",
			v.from, archelonv1.TakeOverAgentAnnotation, v.from)
	}
	return problem
}

// input digests the wish for the input of a job.
func (w wish) input() string {
	return rancher.Digest(fmt.Sprintf("%q %t %s %q", w.takeOver, w.managementCluster, w.settings.Digest, w.kubeconfig))
}
