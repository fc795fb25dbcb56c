package v1alpha1

// Labels and annotations shared with Rancher and Rancher Turtles. Rancher itself reads
// the owner labels from 2.15 on (day-2 operations), so they are part of its contract.
const (
	// ImportLabel selects CAPI clusters for import. It is read on the CAPI Cluster, else on
	// its Namespace: "true" imports, "false" un-imports, absent leaves things as they are.
	ImportLabel = "cluster-api.cattle.io/rancher-auto-import"

	// OwnerNameLabel holds the name of the CAPI Cluster on its Rancher cluster (document 004).
	OwnerNameLabel = "cluster-api.cattle.io/capi-cluster-owner"

	// OwnerNamespaceLabel holds the namespace of the CAPI Cluster on its Rancher cluster
	// (document 004).
	OwnerNamespaceLabel = "cluster-api.cattle.io/capi-cluster-owner-ns"

	// OwnedLabel, with an empty value, marks every Rancher cluster that was made for a CAPI cluster.
	OwnedLabel = "cluster-api.cattle.io/owned"

	// ImportedAnnotation on a CAPI Cluster keeps it from being imported. It is set to "true"
	// when the Rancher cluster is deleted in Rancher; removing it imports again. Its presence
	// counts, whatever its value, as in Rancher Turtles.
	ImportedAnnotation = "imported"

	// DescriptionAnnotation on a CAPI Cluster is the description of its Rancher cluster.
	DescriptionAnnotation = "cluster-api.cattle.io/cluster-description"

	// NoCreatorRBACAnnotation keeps Rancher from binding the creator of a Rancher cluster, here a
	// ServiceAccount, as its owner (Rancher 2.10). It is immutable, so it is set at creation.
	NoCreatorRBACAnnotation = "field.cattle.io/no-creator-rbac"

	// VersionManagementAnnotation set to "false" keeps Rancher from upgrading Kubernetes in an
	// imported cluster, which is CAPI's task (Rancher 2.11).
	VersionManagementAnnotation = "rancher.io/imported-cluster-version-management"

	// ExternallyManagedAnnotation set to "true" on a Rancher cluster leaves its registration with
	// Fleet to another controller (Rancher 2.11).
	ExternallyManagedAnnotation = "provisioning.cattle.io/externally-managed"

	// RancherDescriptionAnnotation is where a v1 Rancher cluster carries its description.
	RancherDescriptionAnnotation = "field.cattle.io/description"

	// TurtlesLease is the name of the Lease that Rancher Turtles holds while it is at work.
	TurtlesLease = "controller-leader-election-rancher-turtles"

	// TurtlesFinalizer is the finalizer of Rancher Turtles on CAPI Clusters and v3 Rancher clusters.
	TurtlesFinalizer = "capicluster.turtles.cattle.io"
)

// Keys of this project.
const (
	// ImportFinalizer is held on a CAPI Cluster while it has a Rancher cluster, and on that
	// Rancher cluster while its CAPI Cluster must learn of its deletion.
	ImportFinalizer = "archelon.io/rancher-import"
	// RoleFinalizer is held on the RoleBinding of an isolated instance, so that the rights outlive what they are needed
	// for when the namespace is deleted or taken from the instance.
	RoleFinalizer = "archelon.io/role-in-use"

	// IsolatedRoleBinding is the name of the RoleBinding that gives a namespace to an isolated instance. It is the same
	// for all instances, so that a namespace has one.
	IsolatedRoleBinding = "archelon-isolated"

	// ManagementClusterLabel on a v3 Rancher cluster is the UID of namespace kube-system of the management cluster that
	// its CAPI Cluster is in, where that is another cluster than Rancher's.
	ManagementClusterLabel = "archelon.io/management-cluster"

	// OwnerUIDLabel on a Rancher cluster ties it to one incarnation of its CAPI Cluster.
	OwnerUIDLabel = "archelon.io/capi-cluster-uid"

	// RecordAnnotation on a CAPI Cluster is the name of its Rancher cluster, written before that
	// cluster is created: "v3/c-xxxxx" or "v1/<name>-capi". Others can write it too, so any other name is not followed.
	RecordAnnotation = "archelon.io/rancher-cluster"

	// InstanceAnnotation on a CAPI Cluster names the instance that works on it, "<namespace>/<instance>", written together
	// with RecordAnnotation. Another instance leaves the cluster alone for as long as that one is alive.
	InstanceAnnotation = "archelon.io/instance"

	// InstanceLabel on a Lease is the name of the instance whose replicas take turns with it.
	InstanceLabel = "archelon.io/instance"

	// ScopeAnnotation on the Lease of an instance says in which namespaces it works: "*" for all, "+a,b" for
	// some, "-a,b" for all but some.
	ScopeAnnotation = "archelon.io/scope"

	// WorksInAnnotation on the Lease of an instance says where the replica that holds the Lease works now, in the same
	// form: what the instance gets of its scope. "+" is nowhere.
	WorksInAnnotation = "archelon.io/works-in"

	// UnelectedAnnotation on the Lease of an instance says, with the value "true", that its holder was started with
	// --leader-elect=false, outside of a Pod. Another process that was started so takes the Lease without waiting.
	UnelectedAnnotation = "archelon.io/unelected"

	// LeavingAnnotation on the Lease of an instance names the namespaces that the instance has given up and in which it
	// may still hold something, separated by commas. Without it there are none.
	LeavingAnnotation = "archelon.io/leaving"

	// WatchFilterAnnotation on the Lease of an instance is its --watch-filter, if it has one.
	WatchFilterAnnotation = "archelon.io/watch-filter"

	// NamespaceSelectorAnnotation on the Lease of an instance is its --namespace-selector, if it has one.
	NamespaceSelectorAnnotation = "archelon.io/namespace-selector"

	// KeptOutAnnotation on a CAPI Cluster is ImportedAnnotation with a prefix, and wins over it: "true" keeps the cluster
	// from being imported, and with "false" it is imported whatever ImportedAnnotation says.
	KeptOutAnnotation = "archelon.io/imported"

	// EarlyImportAnnotation on a CAPI Cluster says whether its Rancher cluster is created before its control plane is
	// available, "true" or "false". It wins over what the installation says.
	EarlyImportAnnotation = "archelon.io/early-import"

	// AgentDeliveryAnnotation on a CAPI Cluster is ManualDelivery if other means than Archelon apply the manifest of
	// Rancher's agent in the workload cluster, because that cannot be reached from the management cluster for example.
	// Archelon writes the manifest into a Secret then. An administrator has to allow it, with gate agent-manifest.
	AgentDeliveryAnnotation = "archelon.io/agent-delivery"
	// ManualDelivery is the value of AgentDeliveryAnnotation.
	ManualDelivery = "manual"

	// ManifestInputAnnotation on the Secret with the manifest of Rancher's agent is a digest of what the manifest was
	// made from.
	ManifestInputAnnotation = "archelon.io/manifest-input"

	// AgentEnvAnnotation on a CAPI Cluster lists environment variables of Rancher's agent in the
	// workload cluster, a proxy for example, as a YAML or JSON map of strings without YAML anchors.
	AgentEnvAnnotation = "archelon.io/agent-env"

	// AgentDeploymentAnnotation on a CAPI Cluster says where and with what Rancher's agent runs in the workload cluster,
	// in YAML or JSON, without anchors, as in Rancher's field clusterAgentDeploymentCustomization. An administrator says
	// which parts of it may be set.
	AgentDeploymentAnnotation = "archelon.io/agent-deployment"

	// FleetAgentDeploymentAnnotation on a CAPI Cluster says the same of the Fleet agent, as in Rancher's field
	// fleetAgentDeploymentCustomization.
	FleetAgentDeploymentAnnotation = "archelon.io/fleet-agent-deployment"

	// PrivateRegistryAnnotation on a CAPI Cluster names the registry that the images of Rancher's agents come from, as
	// HOST[:PORT][/PATH]. It is for v3 Rancher clusters, and an administrator has to allow it.
	PrivateRegistryAnnotation = "archelon.io/private-registry"
	// PullSecretsAnnotation on a CAPI Cluster names Secrets with credentials for PrivateRegistryAnnotation, separated by
	// commas. They are in Rancher's cluster, in the namespace of the Fleet workspace.
	PullSecretsAnnotation = "archelon.io/private-registry-pull-secrets"

	// MembersAnnotation on a CAPI Cluster lists who has which role in its Rancher cluster, as a YAML or JSON list
	// of objects with keys role, and group or user: a role template and a principal of Rancher's. An administrator
	// says which may be asked for.
	MembersAnnotation = "archelon.io/members"

	// KubeconfigSecretAnnotation on a CAPI Cluster names the Secret in its namespace that has its kubeconfig, as NAME or
	// NAME/KEY, instead of key value of Secret CLUSTER-kubeconfig. The Secret needs CAPI's label
	// cluster.x-k8s.io/cluster-name with the name of the Cluster; without it Archelon does not read the Secret.
	KubeconfigSecretAnnotation = "archelon.io/kubeconfig-secret"

	// KubeconfigContextAnnotation on a CAPI Cluster names the context of its kubeconfig that is used, instead of the
	// current one.
	KubeconfigContextAnnotation = "archelon.io/kubeconfig-context"

	// DisplayNameAnnotation on a CAPI Cluster is the name that people see for its v3 Rancher cluster, instead of the
	// name of the CAPI Cluster.
	DisplayNameAnnotation = "archelon.io/display-name"

	// DisplayNameFormAnnotation on a v3 Rancher cluster says in which form it was called when it was created, if that is
	// not the name of the CAPI Cluster: "NamespaceName". It keeps the form when the installation is told another one.
	DisplayNameFormAnnotation = "archelon.io/display-name-form"

	// FleetWorkspaceAnnotation on a CAPI Cluster names the Fleet workspace of its Rancher cluster.
	FleetWorkspaceAnnotation = "archelon.io/fleet-workspace"

	// ExternalFleetAnnotation set to "true" on a CAPI Cluster marks its Rancher cluster with
	// ExternallyManagedAnnotation.
	ExternalFleetAnnotation = "archelon.io/external-fleet"

	// ManagedByAnnotation on a CAPI Cluster assigns it to one of two importers, Archelon or Rancher Turtles. With
	// ManagedByArchelon, Archelon adopts the Rancher cluster that Turtles created, without a new registration. With
	// ManagedByTurtles, Archelon does not import the cluster. Neither value ends an import.
	ManagedByAnnotation = "archelon.io/managed-by"

	// ManagedByLabel on a Namespace says the same of the CAPI Clusters in it that do not have ManagedByAnnotation. It is a
	// label, because a watch cannot select annotations, and Rancher has a Namespace for each of its clusters.
	ManagedByLabel = "archelon.io/managed-by"

	// ManagedByArchelon is a value of ManagedByAnnotation.
	ManagedByArchelon = "archelon"

	// ManagedByTurtles is a value of ManagedByAnnotation.
	ManagedByTurtles = "rancher-turtles"

	// RegistrationRequestedAnnotation on a v3 Rancher cluster is set when its registration token was deleted, and when
	// Rancher's setting server-url was empty and got a value, or got another one before the agent was installed:
	// Rancher makes a token, and fills in its URL, only when the v3 Cluster changes. The value is "<digest of
	// server-url>@<RFC 3339 time>": it changes at once with server-url, else every five minutes while the token or its
	// URL is missing, or names another server-url.
	RegistrationRequestedAnnotation = "archelon.io/registration-requested"

	// TakeOverAgentAnnotation on a CAPI Cluster has the workload cluster's agent taken over from another Rancher
	// cluster: its value is the name of that v3 Rancher cluster, or for an agent of another Rancher the host of that
	// Rancher, as the condition says. It counts for one take-over: when the agent has connected here, it is used up
	// until it is removed and set again.
	TakeOverAgentAnnotation = "archelon.io/take-over-agent"

	// ImportManagementClusterAnnotation set to "true" on a CAPI Cluster allows to import the very
	// cluster that Rancher runs in.
	ImportManagementClusterAnnotation = "archelon.io/import-management-cluster"

	// TakenOverAnnotation on a v3 Rancher cluster is a digest of the TakeOverAgentAnnotation that is used up.
	TakenOverAnnotation = "archelon.io/agent-taken-over"

	// AgentClusterAnnotation on the credentials Secret of Rancher's agent is the name of the v3 Rancher cluster for which
	// Archelon applied it. Rancher itself says so only in the Secret that it makes after the first contact.
	AgentClusterAnnotation = "archelon.io/agent-cluster"

	// AppliedAnnotation on the Deployment of Rancher's agent is a digest of the settings with which Archelon applied it.
	AppliedAnnotation = "archelon.io/applied"

	// PropagatedLabelsAnnotation on a Rancher cluster lists, separated by commas, the label keys that were
	// copied from its CAPI Cluster, so that a label removed there is removed here as well.
	PropagatedLabelsAnnotation = "archelon.io/propagated-labels"

	// PropagatedAnnotationsAnnotation on a Rancher cluster lists, separated by commas, the keys of the annotations that
	// were copied from its CAPI Cluster, so that an annotation removed there is removed here as well.
	PropagatedAnnotationsAnnotation = "archelon.io/propagated-annotations"

	// PropagatedSettingsAnnotation on a Rancher cluster lists, separated by commas, the keys of the annotations of its
	// CAPI Cluster that it was given settings from, so that a setting removed there is removed here as well.
	PropagatedSettingsAnnotation = "archelon.io/propagated-settings"
)
