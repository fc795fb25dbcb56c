package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
)

// SettingsOf digests the settings that Rancher gives the agent of a v3 Cluster in the manifest that is downloaded: those
// of the cluster, and the values of Rancher's settings. Strict is whether these have agents trust Rancher's own CA only.
// The digest goes into the workload cluster, where the environment stands in clear anyway.
func SettingsOf(cluster *managementv3.Cluster, values map[string]string, strict bool) (Settings, error) {
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
		return Settings{}, fmt.Errorf("encoding the settings of the agent: %w", err)
	}
	settings := Settings{
		Cluster: cluster.Name,
		Digest:  Digest(string(encoded)),
		Env:     spec.AgentEnvVars,
		Strict:  strict,
	}
	for i := range cluster.Status.AppliedAgentEnvVars {
		name := cluster.Status.AppliedAgentEnvVars[i].Name
		if !slices.ContainsFunc(spec.AgentEnvVars, func(env corev1.EnvVar) bool { return env.Name == name }) {
			settings.Dropped = append(settings.Dropped, name)
		}
	}
	return settings, nil
}

// Digest returns a short digest of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
