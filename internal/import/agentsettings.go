package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/rancher"
)

// settingsOf digests the settings that Rancher gives the agent of a v3 Cluster in the manifest that is downloaded. The
// digest goes into the workload cluster, where the environment stands in clear anyway.
func settingsOf(cluster *managementv3.Cluster, values map[string]string) (agent.Settings, error) {
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
		return agent.Settings{}, fmt.Errorf("encoding the settings of the agent: %w", err)
	}
	settings := agent.Settings{
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

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
