package importer

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Strategy is what differs between the kinds of Rancher cluster that an import can make. All of it
// is a function of its arguments; requests are made by the Reconciler.
type Strategy interface { //nolint:interfacebloat // the one seam between the kinds; in parts it would be harder to see
	// Kind is the short name of the strategy, "v1" or "v3". It prefixes names in the record annotation.
	Kind() string
	// Nature says what Rancher does with records of the kind.
	Nature() Nature
	// NewObject returns an empty object of the kind of the record.
	NewObject() client.Object
	// NewList returns an empty list of the kind of the record.
	NewList() client.ObjectList
	// Key returns where the record of the given name lives.
	Key(cluster *clusterv1.Cluster, name string) client.ObjectKey
	// ProposeName returns a name for a new record. Names for which taken returns true are avoided.
	ProposeName(cluster *clusterv1.Cluster, taken func(name string) bool) string
	// Names reports whether ProposeName may have given the name to the cluster. Names are read back from an
	// annotation, which others can write.
	Names(cluster *clusterv1.Cluster, name string) bool
	// Render returns the record with exactly the fields that this project sets.
	Render(Desired) *unstructured.Unstructured
	// DisplayName returns the name that Rancher shows for the record, and whether it must be the only one of that name
	// in the Rancher. Rancher and Fleet bring what is meant for a cluster to it by its display name, within a Fleet
	// workspace.
	DisplayName(Desired) (name string, unique bool)
	// ManagementName returns the name of the management.cattle.io/v3 Cluster that stands for the record
	// inside Rancher, or "" as long as Rancher has not made it.
	ManagementName(record client.Object) string
	// Derived reports whether Rancher made the object from a record of another kind. It is not a record then.
	Derived(object client.Object) bool
}

// Nature is what Rancher does with records of a kind.
type Nature struct {
	// Itself: the record is the v3 Cluster that Rancher works with. Rancher makes one from any other.
	Itself bool
	// TakesCluster: Rancher deletes the CAPI cluster of the record's namespace and name together with the record.
	TakesCluster bool
	// TakesNamespace: Rancher takes over the namespace of the record's name, and deletes it together with the record.
	TakesNamespace bool
}

// Desired is what a record is rendered from.
type Desired struct {
	// Cluster is the CAPI cluster that is imported.
	Cluster *clusterv1.Cluster
	// Name of the record.
	Name string
	// Labels and Annotations of the record.
	Labels, Annotations map[string]string
	// Description of the Rancher cluster; empty leaves it alone.
	Description string
	// DisplayName is the name that the owner of the CAPI cluster asks for; empty leaves it to the strategy.
	DisplayName string
	// Form is how it is called otherwise, by the strategies to which that is left.
	Form DisplayNameForm
	// AgentEnv holds environment variables of Rancher's agent, sorted by name.
	AgentEnv []corev1.EnvVar
	// AgentDeployment has fields of the spec, the same for both kinds, with where and with what Rancher's agents run.
	// One that is missing is left alone.
	AgentDeployment map[string]map[string]any
	// Registry is where images come from, and PullSecrets the names of Secrets for it; empty leaves them alone.
	Registry    string
	PullSecrets []string
	// FleetWorkspace is the name of a Fleet workspace; empty leaves the choice to Rancher.
	FleetWorkspace string
}

// RenderAgents adds to the spec of a record what it has about Rancher's agents, which is the same for both kinds.
func (d Desired) RenderAgents(spec map[string]any) {
	if len(d.AgentEnv) > 0 {
		spec["agentEnvVars"] = envVars(d.AgentEnv)
	}
	for field, content := range d.AgentDeployment {
		spec[field] = content
	}
}

// envVars returns environment variables as they stand in JSON. There an empty value is none.
func envVars(env []corev1.EnvVar) []any {
	list := make([]any, 0, len(env))
	for _, variable := range env {
		entry := map[string]any{"name": variable.Name}
		if variable.Value != "" {
			entry["value"] = variable.Value
		}
		list = append(list, entry)
	}
	return list
}
