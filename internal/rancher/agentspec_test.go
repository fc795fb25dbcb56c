package rancher

import (
	"slices"
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
)

// Each setting that Rancher's manifest is made from changes the digest, and nothing else does.
func TestAgentSpecOf(t *testing.T) {
	read := func(change func(*managementv3.Cluster, map[string]string)) AgentSpec {
		t.Helper()
		cluster := &managementv3.Cluster{}
		cluster.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://user:s3cret@proxy:3128"}}
		values := map[string]string{"agent-tls-mode": "strict", "agent-image": "rancher/rancher-agent:v2", "system-default-registry": ""}
		change(cluster, values)
		got, err := AgentSpecOf(cluster, values)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	base := read(func(*managementv3.Cluster, map[string]string) {})
	if !base.Strict || len(base.Env) != 1 || strings.Contains(base.Digest, "s3cret") {
		t.Errorf("got %+v", base)
	}
	for name, test := range map[string]struct {
		change func(*managementv3.Cluster, map[string]string)
		same   bool
	}{
		"Env":   {change: func(c *managementv3.Cluster, _ map[string]string) { c.Spec.AgentEnvVars[0].Value = "" }},
		"NoEnv": {change: func(c *managementv3.Cluster, _ map[string]string) { c.Spec.AgentEnvVars = nil }},
		"Mode":  {change: func(_ *managementv3.Cluster, v map[string]string) { v["agent-tls-mode"] = "system-store" }},
		"Image": {change: func(_ *managementv3.Cluster, v map[string]string) { v["agent-image"] = "rancher/rancher-agent:v3" }},
		"Registry": {change: func(_ *managementv3.Cluster, v map[string]string) {
			v["system-default-registry"] = "registry.example.com"
		}},
		"OwnRegistry": {change: func(c *managementv3.Cluster, _ map[string]string) {
			imported(c).PrivateRegistryURL = "registry.example.com"
		}},
		"PullSecret": {change: func(c *managementv3.Cluster, _ map[string]string) {
			imported(c).PrivateRegistryPullSecrets = []string{"a"}
		}},
		"Customization": {change: func(c *managementv3.Cluster, _ map[string]string) {
			c.Spec.ClusterAgentDeploymentCustomization = &managementv3.AgentDeploymentCustomization{AppendTolerations: []corev1.Toleration{{Key: "a"}}}
		}},
		"Applied": {same: true, change: func(c *managementv3.Cluster, _ map[string]string) {
			c.Status.AppliedAgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY"}, {Name: "GONE"}}
		}},
		"Imported":    {same: true, change: func(c *managementv3.Cluster, _ map[string]string) { imported(c).KubeConfig = "s3cret" }},
		"Description": {same: true, change: func(c *managementv3.Cluster, _ map[string]string) { c.Spec.Description = "x" }},
		"Status":      {same: true, change: func(c *managementv3.Cluster, _ map[string]string) { c.Status.Driver = "imported" }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(test.change); (got.Digest == base.Digest) != test.same {
				t.Errorf("the digest stays the same: %t, want %t", !test.same, test.same)
			} else if dropped := slices.Equal(got.Dropped, []string{"GONE"}); dropped != (name == "Applied") {
				t.Errorf("dropped: %q", got.Dropped)
			}
		})
	}
}

func imported(c *managementv3.Cluster) *managementv3.ImportedConfig {
	if c.Spec.ImportedConfig == nil {
		c.Spec.ImportedConfig = &managementv3.ImportedConfig{}
	}
	return c.Spec.ImportedConfig
}
