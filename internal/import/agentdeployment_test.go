package importer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const agentKey = "archelon.io/agent-deployment"

func TestAgentDeployment(t *testing.T) {
	all := AgentSettings()
	list := func(one string, n int) string { return "[" + strings.Join(slices.Repeat([]string{one}, n), ",") + "]" }
	for name, tc := range map[string]struct {
		text    string
		allowed []string
		want    string // the content as JSON, empty for none
		problem string
	}{
		"Nothing":     {text: " \n"},
		"Not allowed": {text: "appendTolerations: [{key: a, operator: Exists}]", allowed: []string{"resources"}, problem: "it sets tolerations, which is not allowed"},
		"Part of what is allowed": {
			text: "appendTolerations: [{key: a, operator: Exists}]\nschedulingCustomization: {priorityClass: {value: 5}}", allowed: []string{"tolerations"},
			problem: "it sets priority-class, which is not allowed",
		},
		"All": {
			text: `{"appendTolerations": [{"key": "example.com/edge", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 5}],
				"overrideAffinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
					{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]}}},
				"overrideResourceRequirements": {"limits": {"memory": "1024Mi"}, "requests": {"cpu": "1000m", "memory": 4096}},
				"schedulingCustomization": {"priorityClass": {"value": 5, "preemptionPolicy": "Never"}, "podDisruptionBudget": {"minAvailable": "50%"}}}`,
			allowed: all,
			want: `{"appendTolerations":[{"effect":"NoExecute","key":"example.com/edge","operator":"Equal","tolerationSeconds":5,"value":"a"}],` +
				`"overrideAffinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
				`{"matchExpressions":[{"key":"pool","operator":"In","values":["system"]}]}]}}},` +
				`"overrideResourceRequirements":{"limits":{"memory":"1Gi"},"requests":{"cpu":"1","memory":"4096"}},` +
				`"schedulingCustomization":{"podDisruptionBudget":{"minAvailable":"50%"},"priorityClass":{"preemptionPolicy":"Never","value":5}}}`,
		},
		"Unknown field":    {text: "hostNetwork: true", problem: "it must have, in YAML or JSON, fields of Rancher's"},
		"Affinity of Pods": {text: "overrideAffinity: {podAffinity: {}}", problem: "it must have, in YAML or JSON, fields of Rancher's"},
		"No YAML":          {text: "{", problem: "it must have, in YAML or JSON, fields of Rancher's"},
		"Two documents":    {text: "appendTolerations: []\n---\nappendTolerations: []", problem: "it must have, in YAML or JSON, fields of Rancher's"},
		"Anchors":          {text: "appendTolerations: [&a {key: a, operator: Exists}, *a]", problem: "it uses YAML anchors"},
		"Large":            {text: strings.Repeat(" ", 8<<10) + "x", problem: "it must have at most 8 KiB"},
		"Many":             {text: "appendTolerations: " + list("{operator: Exists}", 17), problem: "it must have at most 16 tolerations"},
		// Rancher puts these texts into a manifest.
		"Text in a key":    {text: `appendTolerations: [{key: "a\n- kind: Pod", operator: Exists}]`, problem: "the key of a toleration must be that of a taint"},
		"Text in a value":  {text: `appendTolerations: [{key: a, value: "{{ x }}"}]`, problem: "the operator of a toleration must be Equal"},
		"Text in a budget": {text: `schedulingCustomization: {podDisruptionBudget: {minAvailable: "1\nkind: Pod"}}`, problem: "podDisruptionBudget must have one of"},
		"Text in a policy": {text: `schedulingCustomization: {priorityClass: {preemptionPolicy: "x"}}`, problem: "the preemptionPolicy of priorityClass"},
		"Text in a term": {
			text:    `overrideAffinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: ["\n"]}]}}]}}`,
			problem: "a matchExpression of a nodeAffinity must have",
		},
		"Effect":        {text: "appendTolerations: [{operator: Exists, effect: NoSchedule, tolerationSeconds: 1}]", problem: "the effect of a toleration must be"},
		"No affinity":   {text: "overrideAffinity: {}", problem: "overrideAffinity must have nodeAffinity"},
		"Fields":        {text: "overrideAffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: a, operator: Exists}]}]}}}", problem: "and nothing else"},
		"Weight":        {text: "overrideAffinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}", problem: "1 to 100"},
		"A bomb":        {text: `overrideResourceRequirements: {limits: {cpu: "1e999999999"}}`, problem: "must be like"},
		"Devices":       {text: `overrideResourceRequirements: {limits: {nvidia.com/gpu: 1}}`, problem: "must be about cpu and memory"},
		"Claims":        {text: `overrideResourceRequirements: {claims: [{name: a}]}`, problem: "it must have, in YAML or JSON, fields of Rancher's"},
		"Request":       {text: `overrideResourceRequirements: {limits: {cpu: 1}, requests: {cpu: 2}}`, problem: "must not be more than its limit"},
		"System":        {text: `schedulingCustomization: {priorityClass: {value: 1000000001}}`, problem: "must be within -1000000000 and 1000000000"},
		"Two in one":    {text: `schedulingCustomization: {podDisruptionBudget: {minAvailable: "1", maxUnavailable: "1"}}`, problem: "podDisruptionBudget must have one of"},
		"Empty is none": {text: `appendTolerations: []`},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.allowed == nil && tc.problem != "" {
				tc.allowed = all
			}
			got, err := agentFields()[0].read(map[string]string{agentKey: tc.text}, tc.allowed)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Fatalf("got %v, want %q", err, tc.problem)
			}
			raw, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.TrimPrefix(strings.TrimPrefix(string(raw), "null"), "{}"); tc.problem == "" && text != tc.want {
				t.Error(cmp.Diff(tc.want, text))
			}
		})
	}
}

// What an administrator sets in Rancher, or Rancher itself by default, stays when a tenant sets another part, and what
// was given goes when the tenant takes it back.
func TestAgentDeploymentFollows(t *testing.T) {
	r := Rules{AgentSettings: AgentSettings()}
	patchOf := func(t *testing.T, observed *managementv3.Cluster, text string) string {
		t.Helper()
		cluster := testCluster()
		if text != "" {
			annotated(agentKey, text)(cluster)
		}
		desired, err := r.desired(cluster, "c-abcde")
		if err != nil {
			t.Fatal(err)
		}
		patch, err := syncPatch(observed, renderManagement(desired))
		if err != nil {
			t.Fatal(err)
		}
		content := map[string]any{}
		if err := json.Unmarshal(patch, &content); err != nil {
			t.Fatal(err)
		}
		spec, _, _ := unstructured.NestedFieldNoCopy(content, "spec", "clusterAgentDeploymentCustomization")
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	observed := func(given, customization string) *managementv3.Cluster {
		c := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "uid-2"}}
		if given != "" {
			c.Annotations = map[string]string{"archelon.io/propagated-settings": given}
		}
		if err := json.Unmarshal([]byte(customization), &c.Spec.ClusterAgentDeploymentCustomization); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tc := range map[string]struct {
		given, is, text, want string
	}{
		"Set": {"", `null`, "overrideResourceRequirements: {limits: {cpu: 1}}", `{"overrideResourceRequirements":{"limits":{"cpu":"1"}}}`},
		"Beside Rancher's default": {
			"", `{"schedulingCustomization":{"priorityClass":{"value":9}}}`, "overrideResourceRequirements: {limits: {cpu: 1}}",
			`{"overrideResourceRequirements":{"limits":{"cpu":"1"}}}`,
		},
		"Change": {
			agentKey + ":resources", `{"overrideResourceRequirements":{"limits":{"cpu":"1","memory":"1Gi"}}}`, "overrideResourceRequirements: {limits: {cpu: 1}}",
			`{"overrideResourceRequirements":{"limits":{"memory":null}}}`,
		},
		"Settled": {
			agentKey + ":resources", `{"overrideResourceRequirements":{"limits":{"cpu":"1"}}}`, "overrideResourceRequirements: {limits: {cpu: 1000m}}", `null`,
		},
		"Taken back": {
			agentKey + ":tolerations," + agentKey + ":priority-class",
			`{"appendTolerations":[{"key":"a"}],"schedulingCustomization":{"priorityClass":{"value":9},"podDisruptionBudget":{"minAvailable":"1"}}}`, "",
			`{"appendTolerations":null,"schedulingCustomization":{"priorityClass":null}}`,
		},
		"Never given": {"archelon.io/agent-env", `{"appendTolerations":[{"key":"a"}]}`, "", `null`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, patchOf(t, observed(tc.given, tc.is), tc.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each agent has a field and an annotation of its own. What one of them is given says nothing about the other.
func TestTheFleetAgentIsApart(t *testing.T) {
	const fleetKey = "archelon.io/fleet-agent-deployment"
	r := Rules{AgentSettings: []string{"tolerations"}}
	_, err := r.desired(testCluster(annotated(fleetKey, "overrideResourceRequirements: {limits: {cpu: 1}}")), "c-abcde")
	expectStall(t, err, "InvalidSetting", "cpu")
	if !strings.Contains(err.Error(), fleetKey) {
		t.Errorf("the message does not name the annotation: %v", err)
	}
	cluster := testCluster(annotated(agentKey, "appendTolerations: [{key: a, operator: Exists}]"), annotated(fleetKey, "appendTolerations: [{key: f, operator: Exists}]"))
	desired, err := r.desired(cluster, "c-abcde")
	if err != nil {
		t.Fatal(err)
	}
	observed := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", UID: "uid-2", Labels: desired.Labels, Annotations: desired.Annotations}}
	for name, tc := range map[string]struct{ rest, want string }{
		"cluster agent": {agentKey, `{"clusterAgentDeploymentCustomization":{"appendTolerations":[{"key":"a","operator":"Exists"}]}}`},
		"Fleet agent":   {fleetKey, `{"fleetAgentDeploymentCustomization":{"appendTolerations":[{"key":"f","operator":"Exists"}]}}`},
	} {
		settled := observed.DeepCopy()
		for key, field := range map[string]**managementv3.AgentDeploymentCustomization{
			agentKey: &settled.Spec.ClusterAgentDeploymentCustomization, fleetKey: &settled.Spec.FleetAgentDeploymentCustomization,
		} {
			if key != tc.rest {
				*field = &managementv3.AgentDeploymentCustomization{AppendTolerations: []corev1.Toleration{{Key: strings.TrimPrefix(key, "archelon.io/")[:1], Operator: "Exists"}}}
			}
		}
		patch, err := syncPatch(settled, renderManagement(desired))
		if err != nil || !strings.Contains(string(patch), `"spec":`+tc.want) {
			t.Errorf("%s: got %s, %v", name, patch, err)
		}
	}
}
