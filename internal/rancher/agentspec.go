package rancher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
)

// AgentSpec is what Rancher makes the manifest of the agent of a v3 Cluster from, beside the registration.
type AgentSpec struct {
	// Digest is that of all of it. It goes into the workload cluster, where the environment stands in clear anyway.
	Digest string
	// Env are variables beside those of Rancher, and Dropped the names of those that Rancher has set before.
	Env     []corev1.EnvVar
	Dropped []string
	// Strict has the agent trust Rancher's own CA only.
	Strict bool
}

// AgentSpecOf returns that of a v3 Cluster, with the values of Rancher's settings as AgentSettings returns them.
func AgentSpecOf(cluster *managementv3.Cluster, values map[string]string) (AgentSpec, error) {
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
		return AgentSpec{}, fmt.Errorf("encoding the settings of the agent: %w", err)
	}
	found := AgentSpec{
		Digest: Digest(string(encoded)), Env: spec.AgentEnvVars, Strict: values[AgentTLSModeSetting] == TLSModeStrict,
	}
	for i := range cluster.Status.AppliedAgentEnvVars {
		name := cluster.Status.AppliedAgentEnvVars[i].Name
		if !slices.ContainsFunc(spec.AgentEnvVars, func(env corev1.EnvVar) bool { return env.Name == name }) {
			found.Dropped = append(found.Dropped, name)
		}
	}
	return found, nil
}

// Digest returns a short digest of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
