package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/yaml"
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
			reason:  "Where the API server runs is the policy of its audit log, and nowhere else. A node without a role is a control plane.",
			content: "kind: Cluster\nnodes: [{role: worker}, {}]\nkubeadmConfigPatches: [\"kind: KubeletConfiguration\"]",
			nodes:   2,
		},
		"no nodes": {
			reason:  "kind adds one node by itself, but after the mounts.",
			content: "kind: Cluster",
			nodes:   1,
		},
		"two control planes": {
			reason:  "kind takes it, but tests would look at the one and restart the one only.",
			content: "kind: Cluster\nnodes: [{role: control-plane}, {}, {role: worker}]",
			wantErr: "2 nodes are of the role control-plane",
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
			if err != nil || tc.wantErr != "" {
				checkError(t, tc.reason, err, tc.wantErr)
				return
			}
			if len(config.Nodes) != tc.nodes {
				t.Fatalf("%s\nconfiguration(): %d nodes, want %d", tc.reason, len(config.Nodes), tc.nodes)
			}
			checkAudit(t, config)
		})
	}
}

// rendering is a docker program with as much of an engine as kind needs to write the configuration of a node: it keeps
// that in $state/kubeadm.conf.
const rendering = `
case "$*" in
info*) echo "{}" ;;
ps*) ! [ -e "$state/made" ] || echo dev-control-plane ;;
run*) touch "$state/made" ;;
logs*) echo Reached target multi-user.target - Multi-User System. ;;
"network ls"*) echo network ;;
inspect*kind.role*) echo control-plane ;;
inspect*IPAddress*) echo 10.0.0.2, ;;
*"cat /kind/version") cat "$state/version" ;;
*"cp /dev/stdin /kind/kubeadm.conf") cat >"$state/kubeadm.conf" ;;
esac
`

// TestAuditPatch has kind write the configuration of nodes with the patch, in both of kubeadm's versions.
func TestAuditPatch(t *testing.T) {
	arguments := map[string]string{
		"audit-policy-file": "/etc/kubernetes/audit/policy.yaml",
		"audit-log-path":    "/var/log/kubernetes/audit.log",
		"audit-log-mode":    "blocking-strict",
		"audit-log-maxsize": "100000",
		"runtime-config":    "", // kind's own
	}
	for version, want := range map[string]string{
		"v1.30.0": "kubeadm.k8s.io/v1beta3",
		"v1.35.9": "kubeadm.k8s.io/v1beta3",
		"v1.36.3": "kubeadm.k8s.io/v1beta4",
	} {
		t.Run(version, func(t *testing.T) {
			state := fakeDocker(t, rendering)
			write(t, filepath.Join(state, "version"), version+"\n")
			config := &v1alpha4.Cluster{KubeadmConfigPatches: []string{auditPatch}}
			err := cluster.NewProvider(cluster.ProviderWithDocker()).Create("dev", cluster.CreateWithV1Alpha4Config(config), cluster.CreateWithStopBeforeSettingUpKubernetes(true))
			if err != nil {
				t.Fatal(err)
			}
			got, args := rendered(t, read(t, filepath.Join(state, "kubeadm.conf")))
			if got != want {
				t.Errorf("kind writes %s, want %s", got, want)
			}
			if diff := cmp.Diff(arguments, args); diff != "" {
				t.Errorf("arguments of the API server: -want, +got:\n%s", diff)
			}
		})
	}
}

// rendered returns the version of a configuration of kubeadm and the arguments of the API server, in the
// form that this version has.
func rendered(t *testing.T, content string) (version string, args map[string]string) {
	t.Helper()
	for document := range strings.SplitSeq(content, "\n---") {
		var head struct{ Kind, APIVersion string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != "ClusterConfiguration" {
			continue
		}
		if !strings.HasSuffix(head.APIVersion, "/v1beta4") {
			var old struct {
				APIServer struct{ ExtraArgs map[string]string }
			}
			if err := yaml.Unmarshal([]byte(document), &old); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			return head.APIVersion, old.APIServer.ExtraArgs
		}
		var current struct {
			APIServer struct {
				ExtraArgs []struct{ Name, Value string }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &current); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		args = map[string]string{}
		for _, arg := range current.APIServer.ExtraArgs {
			args[arg.Name] = arg.Value
		}
		return head.APIVersion, args
	}
	t.Fatalf("no ClusterConfiguration in\n%s", content)
	return "", nil
}

// checkAudit checks that the node with the API server has the policy of the audit log, and that it is switched on.
func checkAudit(t *testing.T, config *v1alpha4.Cluster) {
	t.Helper()
	for _, node := range config.Nodes {
		if node.Role == v1alpha4.WorkerRole {
			if len(node.ExtraMounts) > 0 {
				t.Errorf("a worker has the mounts %v", node.ExtraMounts)
			}
			continue
		}
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
