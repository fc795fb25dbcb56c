package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// TestConfigurationFile reads the configuration that somebody brings, for which no engine is asked.
func TestConfigurationFile(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		content string
		nodes   int
		wantErr string
	}{
		"nodes": {
			reason:  "Every node has the policy of the audit log, because any may run an API server.",
			content: "kind: Cluster\nnodes: [{role: control-plane}, {role: worker}]\nkubeadmConfigPatches: [\"kind: KubeletConfiguration\"]",
			nodes:   2,
		},
		"no nodes": {
			reason:  "kind adds one node by itself, but after the mounts.",
			content: "kind: Cluster",
			nodes:   1,
		},
		"a mistake": {
			reason:  "A key that kind would ignore has no effect, which takes a while to notice.",
			content: "kind: Cluster\nnode: []",
			wantErr: "KIND_CLUSTER_CONFIG",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "cluster.yaml")
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KIND_CLUSTER_CONFIG", file)
			config, err := configuration(t.Context(), "world", dir)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s\nconfiguration(): want error %q, got %v", tc.reason, tc.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s\nconfiguration(): %v", tc.reason, err)
			}
			if len(config.Nodes) != tc.nodes {
				t.Fatalf("%s\nconfiguration(): %d nodes, want %d", tc.reason, len(config.Nodes), tc.nodes)
			}
			checkAudit(t, config)
		})
	}
}

// checkAudit checks that every node has the policy of the audit log, and that it is switched on.
func checkAudit(t *testing.T, config *v1alpha4.Cluster) {
	t.Helper()
	for _, node := range config.Nodes {
		if len(node.ExtraMounts) != 1 {
			t.Fatalf("a node has the mounts %v", node.ExtraMounts)
		}
		policy, err := os.ReadFile(filepath.Join(node.ExtraMounts[0].HostPath, "policy.yaml"))
		if err != nil || !strings.Contains(string(policy), "audit.k8s.io") {
			t.Errorf("the mounted policy is %q, %v", policy, err)
		}
	}
	if last := config.KubeadmConfigPatches[len(config.KubeadmConfigPatches)-1]; !strings.Contains(last, "audit-policy-file") {
		t.Errorf("no patch switches the audit log on: %v", config.KubeadmConfigPatches)
	}
}
