package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
)

// agentSettings reads the settings that Rancher gives the agent of a v3 Cluster in the manifest that is downloaded.
func (r *Reconciler) agentSettings(ctx context.Context, cluster *managementv3.Cluster) (workload.Settings, error) {
	values, err := r.Settings.AgentSettings(ctx)
	if err != nil {
		return workload.Settings{}, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	return settingsOf(cluster, values)
}

// settingsOf digests them. The digest goes into the workload cluster, where the environment stands in clear anyway.
func settingsOf(cluster *managementv3.Cluster, values map[string]string) (workload.Settings, error) {
	spec := &cluster.Spec
	part := struct {
		Settings      map[string]string
		Env           []corev1.EnvVar
		Customization *managementv3.AgentDeploymentCustomization
		Registry      string
		PullSecrets   []string
	}{Settings: values, Env: spec.AgentEnvVars, Customization: spec.ClusterAgentDeploymentCustomization}
	if imported := spec.ImportedConfig; imported != nil {
		part.Registry, part.PullSecrets = imported.PrivateRegistryURL, imported.PrivateRegistryPullSecrets
	}
	encoded, err := json.Marshal(part) // with the keys of maps in order
	if err != nil {
		return workload.Settings{}, fmt.Errorf("encoding the settings of the agent: %w", err)
	}
	settings := workload.Settings{
		Cluster: cluster.Name,
		Digest:  digestOf(string(encoded)),
		Env:     spec.AgentEnvVars,
		Strict:  values[rancher.AgentTLSModeSetting] == rancher.TLSModeStrict,
	}
	for i := range cluster.Status.AppliedAgentEnvVars {
		name := cluster.Status.AppliedAgentEnvVars[i].Name
		if !slices.ContainsFunc(spec.AgentEnvVars, func(env corev1.EnvVar) bool { return env.Name == name }) {
			settings.Dropped = append(settings.Dropped, name)
		}
	}
	return settings, nil
}

// outdated reports whether an agent that is able to connect and does not was installed with other settings. known says that it has connected
// before: then Rancher has installed it since, and brings it up to date as soon as it connects again. So it is left alone if its Pods are
// available and have the environment that they should (fits): whoever upgrades Rancher, which changes the agent's image, would otherwise have every
// agent installed anew that is away for a moment. One without a digest that has connected is of others, or of before there was one.
func outdated(applied, digest string, known, available, fits bool) bool {
	switch {
	case applied == digest:
		return false
	case !known:
		return true
	default:
		return !fits || applied != "" && !available
	}
}
