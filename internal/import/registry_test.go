package importer

import (
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	registryKey    = "archelon.io/private-registry"
	pullSecretsKey = "archelon.io/private-registry-pull-secrets"
)

func TestRegistry(t *testing.T) {
	for value, ok := range map[string]bool{
		"": true, "registry.example.com": true, "registry.example.com:5000": true, "registry.example.com/a/b-c_d.e": true, "localhost:65535": true, "10.0.0.1:443/x": true,

		"https://registry.example.com": false, "user:s3cret@registry.example.com": false, "registry": false, "mirror/rancher": false, "registry.example.com/": false,
		"registry.example.com:0": false, "registry.example.com:65536": false, "registry.example.com:": false, "registry.example.com:5000:1": false,
		"Registry.example.com": false, "registry.example.com/A": false, "registry..example.com": false, "-a.example.com": false, "registry.example.com//a": false,
		"registry.example.com/../a": false, "registry.example.com?x=y": false, "registry.example.com/a:tag": false, "registry.example.com/a@sha256:0": false,
		" registry.example.com": false, "registry.example.com\n": false, "registry.example.com\"\n- kind: Pod": false, "{{ x }}.example.com": false, "régistry.example.com": false,
		"registry.example.com/" + strings.Repeat("a", 179): true, "registry.example.com/" + strings.Repeat("a", 180): false,
	} {
		got, err := registry(map[string]string{registryKey: value})
		if (err == nil) != ok || ok && got != value {
			t.Errorf("%q: got %q, %v", value, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error quotes the value: %v", err)
		}
	}
}

func TestRegistryIsAllowedByParts(t *testing.T) {
	const host = "registry.example.com"
	for name, tc := range map[string]struct {
		allowed         []string
		url, secrets    string
		problem, naming string
	}{
		"Nothing":           {},
		"Allowed":           {allowed: []string{"private-registry"}, url: host},
		"Not allowed":       {allowed: []string{"resources"}, url: host, problem: "add private-registry to", naming: registryKey},
		"Secrets":           {allowed: AgentSettings(), url: host, secrets: "a,b.c"},
		"Secrets forbidden": {allowed: []string{"private-registry"}, url: host, secrets: "a", problem: "add registry-pull-secrets to", naming: pullSecretsKey},
		"Secrets alone":     {allowed: AgentSettings(), secrets: "a", problem: "it needs annotation", naming: pullSecretsKey},
		"No names":          {allowed: AgentSettings(), url: host, secrets: "a, b", problem: "the names of at most 8 Secrets", naming: pullSecretsKey},
		"Elsewhere":         {allowed: AgentSettings(), url: host, secrets: "ns/a", problem: "the names of at most 8 Secrets", naming: pullSecretsKey},
		"Many":              {allowed: AgentSettings(), url: host, secrets: "a" + strings.Repeat(",a", 8), problem: "the names of at most 8 Secrets", naming: pullSecretsKey},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster(annotated(registryKey, tc.url), annotated(pullSecretsKey, tc.secrets))
			desired, err := (Rules{AgentSettings: tc.allowed}).desired(cluster, "c-abcde")
			if tc.problem != "" {
				expectStall(t, err, "InvalidSetting", host)
				if !strings.Contains(err.Error(), tc.problem) || !strings.Contains(err.Error(), "Annotation "+tc.naming+" ") {
					t.Errorf("got %v, want %q about %s", err, tc.problem, tc.naming)
				}
				return
			}
			if err != nil || desired.Registry != tc.url || strings.Join(desired.PullSecrets, ",") != tc.secrets {
				t.Errorf("got %q, %q, %v", desired.Registry, desired.PullSecrets, err)
			}
		})
	}
}

// What a tenant takes back goes, and what somebody has set in Rancher, a kubeconfig for example, stays.
func TestRegistryIsTakenBack(t *testing.T) {
	for given, want := range map[string]string{
		registryKey + "," + pullSecretsKey: `"importedConfig":{"privateRegistryPullSecrets":null,"privateRegistryURL":null}`,
		registryKey:                        `"importedConfig":{"privateRegistryURL":null}`,
		"":                                 "",
	} {
		observed := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "uid-2", Annotations: map[string]string{"archelon.io/propagated-settings": given}}}
		observed.Spec.ImportedConfig = &managementv3.ImportedConfig{
			KubeConfig: "s3cret", PrivateRegistryURL: "registry.example.com", PrivateRegistryPullSecrets: []string{"pull"},
		}
		desired, err := (Rules{}).desired(testCluster(), "c-abcde")
		if err != nil {
			t.Fatal(err)
		}
		patch, err := syncPatch(observed, renderManagement(desired))
		if err != nil || !strings.Contains(string(patch), want) || strings.Contains(string(patch), "importedConfig") != (want != "") {
			t.Errorf("%s: got %s, %v", given, patch, err)
		}
	}
}
