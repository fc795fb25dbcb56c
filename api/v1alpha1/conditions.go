package v1alpha1

// RancherImportedCondition is the condition on a CAPI Cluster that says whether the cluster is
// imported into Rancher and its agent is connected. It may be named in spec.availabilityGates.
const RancherImportedCondition = "RancherImported"

// FleetEngagedCondition on a CAPI Cluster says whether controllers that run across the fleet work with the workload
// cluster. It is there where gate fleet is on, for imported clusters. Its reasons are those of package providers/capi.
const FleetEngagedCondition = "FleetEngaged"

// RancherMembersCondition on a CAPI Cluster says whether those whom annotation archelon.io/members names have their
// roles in the Rancher cluster. It is there where gate rancher-cluster-members is on and the annotation is set. Its
// reasons are those of package internal/members.
const RancherMembersCondition = "RancherMembers"

// AgentManifestCondition on a CAPI Cluster says whether a Secret has the manifest of Rancher's agent, for those who
// apply it in the workload cluster. It is there where gate agent-manifest is on and annotation
// archelon.io/agent-delivery is "manual". Its reasons are those of package internal/agentmanifest, and those of
// RancherImported that are about Rancher.
const AgentManifestCondition = "AgentManifest"

// ImportedReason is the reason of RancherImported=True: the Rancher cluster exists and Rancher
// reports its agent as connected.
const ImportedReason = "Imported"

// Reasons of RancherImported=False that say where the import stands. They pass by themselves.
const (
	// PausedReason: the CAPI Cluster is paused; nothing is done until it is resumed.
	PausedReason = "Paused"

	// WaitingForControlPlaneReason: Cluster API has not seen the control plane serve yet.
	WaitingForControlPlaneReason = "WaitingForControlPlane"

	// RancherClusterTerminatingReason: an earlier Rancher cluster of this CAPI cluster is still being deleted
	// by Rancher. If it stays, look at the finalizers of the Rancher cluster that the message names.
	RancherClusterTerminatingReason = "RancherClusterTerminating"

	// WaitingForRancherReason: the Rancher cluster exists and Rancher has yet to prepare it. If it stays,
	// look whether Rancher is running.
	WaitingForRancherReason = "WaitingForRancher"

	// ConnectingAgentReason: Rancher's agent is being installed in the workload cluster.
	ConnectingAgentReason = "ConnectingAgent"

	// WaitingForAgentReason: the agent is installed and has yet to connect to Rancher. If it stays, look at
	// the Deployment cattle-system/cattle-cluster-agent in the workload cluster.
	WaitingForAgentReason = "WaitingForAgent"

	// AgentUnschedulableReason: the agent is installed and has no Pod on a Node: nothing creates its Pods, or no Node
	// accepts them. The message says why.
	AgentUnschedulableReason = "AgentUnschedulable"

	// AgentPodsRefusedReason: the API server of the workload cluster refuses the Pods of the agent: by a quota, Pod
	// Security, or another admission. The message says which, and what to change.
	AgentPodsRefusedReason = "AgentPodsRefused"

	// AgentImageUnavailableReason: the image of the agent cannot be pulled. Look at the registry, and at the way to it.
	AgentImageUnavailableReason = "AgentImageUnavailable"

	// AgentCrashingReason: the container of the agent cannot be started, or ends again and again. Look at its log.
	AgentCrashingReason = "AgentCrashing"

	// AgentCannotReachRancherReason: the agent runs, and its log says that it cannot connect to Rancher's server-url. The
	// message says whether it is the DNS, the network or the certificate.
	AgentCannotReachRancherReason = "AgentCannotReachRancher"

	// AgentDisconnectedReason: the agent was connected and Rancher reports it as disconnected. It is being looked at,
	// or able to connect. What Rancher calls disconnected before the first connection is WaitingForAgentReason.
	AgentDisconnectedReason = "AgentDisconnected"

	// DeletingReason: the CAPI Cluster is being deleted and its Rancher cluster with it.
	DeletingReason = "Deleting"
)

// Reasons of RancherImported=False that reflect a choice of the user.
const (
	// NotSelectedReason: the import label is absent or "false". Set it to "true" on the CAPI Cluster
	// or its Namespace to import.
	NotSelectedReason = "NotSelected"

	// AssignedToTurtlesReason: archelon.io/managed-by, the annotation of the CAPI Cluster or the label of its Namespace,
	// assigns the cluster to Rancher Turtles. Set the annotation to "archelon" to import the cluster with Archelon.
	AssignedToTurtlesReason = "AssignedToTurtles"

	// RemovedInRancherReason: the annotation "imported" keeps the cluster from being imported, usually
	// because its Rancher cluster was deleted in Rancher. Remove the annotation to import again.
	RemovedInRancherReason = "RemovedInRancher"
)

// Reasons of RancherImported=False that need a person, or a retry.
const (
	// InvalidImportLabelReason: the value of the import label is not a boolean. Set it to "true" or "false".
	InvalidImportLabelReason = "InvalidImportLabel"

	// InvalidSettingReason: an annotation with agent settings cannot be read. The message says what it must hold.
	InvalidSettingReason = "InvalidSetting"

	// TooManyLabelsReason: the labels that the Rancher cluster gets from the CAPI Cluster are too large. Those in Rancher
	// stay as they are. Remove labels, or exclude some of them.
	TooManyLabelsReason = "TooManyLabels"

	// TooManyAnnotationsReason: the annotations that the Rancher cluster gets from the CAPI Cluster are too large. Those
	// in Rancher stay as they are.
	TooManyAnnotationsReason = "TooManyAnnotations"

	// NameTooLongReason: the name or namespace of the CAPI Cluster is over 63 characters and cannot be the
	// value of an owner label. The cluster cannot be imported under this name.
	NameTooLongReason = "NameTooLong"

	// ProvisionedByRancherReason: the CAPI Cluster is the inside of a cluster that Rancher provisioned and shows already.
	// Remove the import label.
	ProvisionedByRancherReason = "ProvisionedByRancher"

	// TurtlesActiveReason: Rancher Turtles runs here and imports what carries the same label. Park its importer, or leave
	// the cluster to it.
	TurtlesActiveReason = "TurtlesActive"

	// ManagedByTurtlesReason: Rancher Turtles holds this cluster. Only one importer can. Park its importer and set the
	// annotation archelon.io/managed-by to "archelon" to take the cluster over.
	ManagedByTurtlesReason = "ManagedByTurtles"

	// ForeignRancherClusterReason: a Rancher cluster names this CAPI cluster as its owner and was not made for it, or
	// not for this incarnation of it; or has a name that its record needs; or is a v3 Cluster that its v1 record leads to
	// and was not made from. Delete the Rancher cluster that the message names, or its owner labels.
	ForeignRancherClusterReason = "ForeignRancherCluster"

	// IncompleteOwnerLabelsReason: a Rancher cluster carries only one of the two owner labels. Restore the
	// other one or delete that Rancher cluster.
	IncompleteOwnerLabelsReason = "IncompleteOwnerLabels"

	// DuplicateRancherClustersReason: two Rancher clusters exist for this CAPI cluster. Delete one of them.
	DuplicateRancherClustersReason = "DuplicateRancherClusters"

	// RancherClusterNameTakenReason: another CAPI Cluster has the name of the v1 Rancher cluster, and Rancher would delete
	// it together with that. Delete or rename the other CAPI Cluster first.
	RancherClusterNameTakenReason = "RancherClusterNameTaken"

	// DisplayNameTakenReason: another Rancher cluster has the display name that this one would have. Rancher brings
	// Secrets to clusters by that name. Set annotation archelon.io/display-name to another name.
	DisplayNameTakenReason = "DisplayNameTaken"

	// RancherClusterRejectedReason: the API server or a webhook of Rancher refused the Rancher cluster.
	RancherClusterRejectedReason = "RancherClusterRejected"

	// ConversionWebhookFailedReason: the API server cannot convert CAPI Clusters, because the conversion webhook of
	// Cluster API does not answer, or has a certificate that the CRD does not know.
	ConversionWebhookFailedReason = "ConversionWebhookFailed"

	// InternalErrorReason: a request to the management cluster failed, or met nothing but conflicts
	// for some time; it is retried.
	InternalErrorReason = "InternalError"
)
