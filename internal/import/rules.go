package importer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/instance"
)

// Rules are the options of an installation that decide what is done.
type Rules struct {
	// Active is the strategy that creates new records.
	Active Strategy
	// Others are the remaining strategies. Their records are cleaned up, never created.
	Others []Strategy
	// Self is this instance.
	Self instance.ID
	// Origin is the management cluster, where Rancher is in another one: its records carry it. Empty otherwise.
	Origin types.UID
	// OriginName is how people call the management cluster, where Rancher is in another one: Rancher clusters whose CAPI
	// Clusters have one name are told apart by it. Optional: the second one waits.
	OriginName string
	// Claim limits the import to CAPI Clusters; the zero value is all.
	Claim instance.Claim
	// AdoptTurtles takes over records that Rancher Turtles created, unless the CAPI Cluster says otherwise.
	AdoptTurtles bool
	// TurtlesParked says that Rancher Turtles runs and imports nothing: its Lease stops no import.
	TurtlesParked bool
	// FleetWorkspaces are those that a CAPI Cluster may ask for. Fleet brings what belongs to a workspace, secrets
	// included, to all of its clusters, and Rancher asks only whether we may add clusters to it.
	FleetWorkspaces []string
	// DisplayName is how new v3 Rancher clusters are called.
	DisplayName DisplayNameForm
	// Selector selects what is imported without the import label.
	Selector Selector
	// Early says which Rancher clusters are created before control planes are available. A namespace has
	// EarlyPerNamespace of them at most.
	Early             EarlyImport
	EarlyPerNamespace int
	// AgentSettings are those parts of the Deployment of Rancher's agent that a CAPI Cluster
	// may ask for, of AgentSettings.
	AgentSettings []string
	// AgentDefaults are settings of Rancher's agent that an administrator gives to all clusters.
	AgentDefaults AgentDefaults
	// ManualDelivery allows that other means than Archelon apply the manifest of Rancher's agent in a workload cluster.
	ManualDelivery bool
	// ClassLabels has the Rancher cluster carry labels that say of which ClusterClass the CAPI Cluster is.
	ClassLabels bool
	// UnpropagatedLabels are keys of labels that Rancher clusters do not get from their CAPI Clusters, beside those
	// that no Rancher cluster gets. A * in them stands for any characters but a slash.
	UnpropagatedLabels []string
	// PropagatedAnnotations are keys of annotations that Rancher clusters get from their CAPI Clusters, and their Fleet
	// Clusters from Rancher. A * in the name stands for any characters. See CheckPropagatedAnnotation.
	PropagatedAnnotations []string
	// DisconnectGrace is how long an agent that was connected may be disconnected before anything is done about it;
	// default at once.
	DisconnectGrace time.Duration
}

// strategies returns every strategy, the active one first. Records of the others are cleaned up.
func (r Rules) strategies() []Strategy {
	return append([]Strategy{r.Active}, r.Others...)
}

// AgentDefaults are settings of Rancher's agent for all clusters. What a CAPI Cluster asks for itself wins. See
// ParseAgentDefaults.
type AgentDefaults struct {
	// Env has environment variables, sorted by name. A variable of the same name of the CAPI Cluster wins.
	Env []corev1.EnvVar
	// Tolerations of the agent's Pods, as a Rancher cluster has them. Those of the CAPI Cluster replace all of them.
	Tolerations []any
}
