package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestParseAgentDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		env         []string
		tolerations string
		want        AgentDefaults
		problem     string
	}{
		"Nothing": {tolerations: " \n"},
		"All": {
			env: []string{"NO_PROXY=10.0.0.0/8,.svc", "HTTPS_PROXY=http://u:a=b@proxy:3128", "EMPTY="}, tolerations: `[{"key":"edge","operator":"Exists"}]`,
			want: AgentDefaults{
				Env: []corev1.EnvVar{
					{Name: "EMPTY"}, {Name: "HTTPS_PROXY", Value: "http://u:a=b@proxy:3128"}, {Name: "NO_PROXY", Value: "10.0.0.0/8,.svc"},
				},
				Tolerations: []any{map[string]any{"key": "edge", "operator": "Exists"}},
			},
		},
		"No value":      {env: []string{"s3cret"}, problem: "must be NAME=VALUE"},
		"No name":       {env: []string{"=s3cret"}, problem: "must be NAME=VALUE"},
		"Bad name":      {env: []string{"s3cret x=a"}, problem: "must be NAME=VALUE"},
		"Twice":         {env: []string{"A=1", "A=s3cret"}, problem: "environment variable A must be there once"},
		"Spaces":        {env: []string{"no_proxy=a, s3cret"}, problem: "environment variable no_proxy must have no spaces"},
		"Of Rancher":    {env: []string{"CATTLE_AGENT_VAR_DIR=/s3cret"}, problem: "because Rancher refuses it"},
		"Large":         {env: []string{"A=" + strings.Repeat("s3cret", 1366)}, problem: "must have at most 8 KiB"},
		"No list":       {tolerations: "{key: s3cret}", problem: "they must be a list of tolerations"},
		"No YAML":       {tolerations: "[s3cret", problem: "they must be a list of tolerations"},
		"Anchors":       {tolerations: "[&a {key: s3cret, operator: Exists}, *a]", problem: "they must be a list of tolerations"},
		"Unknown field": {tolerations: "[{key: a, operator: Exists, s3cret: 1}]", problem: "they must be a list of tolerations"},
		"Operator":      {tolerations: "[{key: a, operator: s3cret}]", problem: "the operator of a toleration must be"},
		"Text in a key": {tolerations: `[{key: "a\n- kind: s3cret", operator: Exists}]`, problem: "the key of a toleration must be"},
		"Many":          {tolerations: "[" + strings.Repeat("{operator: Exists},", 17) + "]", problem: "at most 16 tolerations"},
		"Too long":      {tolerations: "[{operator: Exists}" + strings.Repeat(" ", 8<<10) + "]", problem: "at most 8 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAgentDefaults(tc.env, tc.tolerations)
			switch {
			case (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem):
				t.Fatalf("got %v, want %q", err, tc.problem)
			case err != nil && strings.Contains(err.Error(), "s3cret"):
				t.Fatalf("the error quotes a value: %v", err)
			case err == nil:
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// What a Cluster asks for wins over what all clusters have: by the name of a variable, and by all tolerations.
func TestAClusterWinsOverDefaults(t *testing.T) {
	defaults, err := ParseAgentDefaults([]string{"A=all", "B=all"}, "[{key: all, operator: Exists}]")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{AgentSettings: AgentSettings(), AgentDefaults: defaults}
	const deployment = agentKey + ":tolerations"
	for name, tc := range map[string]struct {
		cluster   *clusterv1.Cluster
		env       string
		key       string // of the only toleration
		settings  string
		resources bool
	}{
		"Nothing":     {cluster: testCluster(), env: "A=all B=all", key: "all", settings: "archelon.io/agent-env," + deployment},
		"Variable":    {cluster: testCluster(annotated("archelon.io/agent-env", "{B: own, C: own}")), env: "A=all B=own C=own", key: "all", settings: "archelon.io/agent-env," + deployment},
		"Empty":       {cluster: testCluster(annotated("archelon.io/agent-env", `{B: ""}`)), env: "A=all B=", key: "all", settings: "archelon.io/agent-env," + deployment},
		"Tolerations": {cluster: testCluster(annotated(agentKey, "appendTolerations: [{key: own, operator: Exists}]")), env: "A=all B=all", key: "own", settings: deployment + ",archelon.io/agent-env"},
		"Other part": {
			cluster: testCluster(annotated(agentKey, "overrideResourceRequirements: {limits: {cpu: 1}}")), env: "A=all B=all", key: "all",
			settings: agentKey + ":resources,archelon.io/agent-env," + deployment, resources: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			desired, err := r.desired(tc.cluster, "c-abcde")
			if err != nil {
				t.Fatal(err)
			}
			var env []string
			for _, variable := range desired.AgentEnv {
				env = append(env, variable.Name+"="+variable.Value)
			}
			want := []any{map[string]any{"key": tc.key, "operator": "Exists"}}
			agent := desired.AgentDeployment["clusterAgentDeploymentCustomization"]
			_, resources := agent["overrideResourceRequirements"]
			if strings.Join(env, " ") != tc.env || !cmp.Equal(agent["appendTolerations"], any(want)) || resources != tc.resources ||
				desired.Annotations["archelon.io/propagated-settings"] != tc.settings {
				t.Errorf("got %v, %v, %v", env, desired.AgentDeployment, desired.Annotations)
			}
		})
	}
	if len(r.AgentDefaults.Tolerations) != 1 || len(r.AgentDefaults.Env) != 2 {
		t.Errorf("a cluster has changed what all have: %+v", r.AgentDefaults)
	}
}

// When the administrator takes them back, Rancher clusters lose what they had from them and nothing else.
func TestDefaultsAreTakenBack(t *testing.T) {
	defaults, err := ParseAgentDefaults([]string{"A=all"}, "[{key: all, operator: Exists}]")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		before Rules // of the manager that has made the Rancher cluster
		want   string
	}{
		"Given": {
			before: Rules{AgentDefaults: defaults},
			want: `{"metadata":{"annotations":{"archelon.io/propagated-settings":null},"uid":"uid-2"},` +
				`"spec":{"agentEnvVars":null,"clusterAgentDeploymentCustomization":{"appendTolerations":null}}}`,
		},
		"Never given": {before: Rules{}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := tc.before.desired(testCluster(), "c-abcde")
			if err != nil {
				t.Fatal(err)
			}
			observed := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "uid-2", Labels: made.Labels, Annotations: made.Annotations}}
			observed.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "all"}}
			observed.Spec.ClusterAgentDeploymentCustomization = &managementv3.AgentDeploymentCustomization{
				AppendTolerations: []corev1.Toleration{{Key: "all", Operator: corev1.TolerationOpExists}},
			}
			desired, err := (Rules{}).desired(testCluster(), "c-abcde")
			if err != nil {
				t.Fatal(err)
			}
			patch, err := syncPatch(observed, renderManagement(desired))
			if err != nil || string(patch) != tc.want {
				t.Errorf("got %s, %v, want %s", patch, err, tc.want)
			}
		})
	}
}
