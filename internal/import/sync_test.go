package importer

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSyncPatch(t *testing.T) {
	observed := func(change ...func(*managementv3.Cluster)) *managementv3.Cluster {
		cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-abcde", UID: "uid-9",
			Labels: map[string]string{"team": "blue", "provider.cattle.io": "k3s", "kept-by-rancher": "yes"},
			Annotations: map[string]string{
				"archelon.io/propagated-labels":  "team",
				"lifecycle.cattle.io/create.foo": "true",
			},
		}}
		cluster.Spec.DisplayName = "prod"
		cluster.Spec.FleetWorkspaceName = "fleet-default"
		for _, c := range change {
			c(cluster)
		}
		return cluster
	}
	rendered := func(labels, annotations map[string]string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetLabels(labels)
		u.SetAnnotations(annotations)
		return u
	}
	same := map[string]string{"archelon.io/propagated-labels": "team", "field.cattle.io/no-creator-rbac": "true"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(same)
		maps.Copy(all, more)
		return all
	}
	annotated := func(c *managementv3.Cluster) {
		maps.Copy(c.Annotations, map[string]string{
			"example.com/cost": "1", "example.com/of-rancher": "1", "archelon.io/propagated-annotations": "example.com/cost,lifecycle.cattle.io/create.foo",
		})
	}
	tests := map[string]struct {
		reason   string
		observed *managementv3.Cluster
		rendered *unstructured.Unstructured
		want     string
	}{
		"Settled": {
			reason:   "nothing to write, whatever Rancher added, and no-creator-rbac is never added later: Rancher refuses that",
			observed: observed(),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
		},
		"Label": {
			reason:   "a changed label and a new one",
			observed: observed(),
			rendered: rendered(map[string]string{"team": "red", "tier": "1"}, map[string]string{"archelon.io/propagated-labels": "team,tier"}, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","labels":{"team":"red","tier":"1"},"annotations":{"archelon.io/propagated-labels":"team,tier"}}}`,
		},
		"LabelGone": {
			reason:   "only labels that were copied are removed",
			observed: observed(),
			rendered: rendered(map[string]string{}, map[string]string{}, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","labels":{"team":null},"annotations":{"archelon.io/propagated-labels":null}}}`,
		},
		"Forged": {
			reason: "a list that somebody wrote by hand cannot make us remove what we never copy",
			observed: observed(func(c *managementv3.Cluster) {
				c.Annotations["archelon.io/propagated-labels"] = "team,provider.cattle.io"
			}),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","annotations":{"archelon.io/propagated-labels":"team"}}}`,
		},
		"Annotation": {
			reason:   "a changed annotation and a new one",
			observed: observed(annotated),
			rendered: rendered(map[string]string{"team": "blue"}, with(map[string]string{
				"example.com/cost": "2", "example.com/tier": "1", "archelon.io/propagated-annotations": "example.com/cost,example.com/tier",
			}), map[string]any{}),
			want: `{"metadata":{"uid":"uid-9","annotations":{"example.com/cost":"2","example.com/tier":"1","archelon.io/propagated-annotations":"example.com/cost,example.com/tier"}}}`,
		},
		"AnnotationGone": {
			reason:   "only annotations that were copied are removed, and nothing that somebody wrote into their list by hand",
			observed: observed(annotated),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{}),
			want:     `{"metadata":{"uid":"uid-9","annotations":{"example.com/cost":null,"archelon.io/propagated-annotations":null}}}`,
		},
		"Spec": {
			reason:   "fields of the spec, and no others",
			observed: observed(),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod", "description": "new", "agentEnvVars": envVars([]corev1.EnvVar{{Name: "A", Value: "B"}})}),
			want:     `{"metadata":{"uid":"uid-9"},"spec":{"description":"new","agentEnvVars":[{"name":"A","value":"B"}]}}`,
		},
		"EnvSettled": {
			reason:   "an equal list costs no write",
			observed: observed(func(c *managementv3.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "B"}} }),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod", "agentEnvVars": envVars([]corev1.EnvVar{{Name: "A", Value: "B"}})}),
		},
		"EmptyEnvSettled": {
			reason:   "an empty value is none once it is stored",
			observed: observed(func(c *managementv3.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "NO_PROXY"}} }),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod", "agentEnvVars": envVars([]corev1.EnvVar{{Name: "NO_PROXY", Value: ""}})}),
		},
		"Tracked": {
			reason: "a label by which a tool would prune the Rancher cluster is removed, though the list of copied labels has it",
			observed: observed(func(c *managementv3.Cluster) {
				c.Labels["app.kubernetes.io/instance"] = "fleet"
				c.Annotations["archelon.io/propagated-labels"] = "app.kubernetes.io/instance,team"
			}),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","labels":{"app.kubernetes.io/instance":null},"annotations":{"archelon.io/propagated-labels":"team"}}}`,
		},
		"ExternalFleetGone": {
			reason: "what was given is taken back",
			observed: observed(func(c *managementv3.Cluster) {
				c.Annotations["provisioning.cattle.io/externally-managed"] = "true"
				c.Annotations["archelon.io/propagated-settings"] = "archelon.io/external-fleet"
			}),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","annotations":{"provisioning.cattle.io/externally-managed":null,"archelon.io/propagated-settings":null}}}`,
		},
		"ExternalFleetOfOthers": {
			reason:   "what Turtles or an administrator gave stays",
			observed: observed(func(c *managementv3.Cluster) { c.Annotations["provisioning.cattle.io/externally-managed"] = "true" }),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
		},
		"EnvGone": {
			reason: "an environment that was given is taken back",
			observed: observed(func(c *managementv3.Cluster) {
				c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "B"}}
				c.Annotations["archelon.io/propagated-settings"] = "archelon.io/agent-env"
			}),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
			want:     `{"metadata":{"uid":"uid-9","annotations":{"archelon.io/propagated-settings":null}},"spec":{"agentEnvVars":null}}`,
		},
		"EnvOfOthers": {
			reason:   "an environment that an administrator gave stays",
			observed: observed(func(c *managementv3.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "B"}} }),
			rendered: rendered(map[string]string{"team": "blue"}, same, map[string]any{"displayName": "prod"}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := syncPatch(tc.observed, tc.rendered)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if tc.want == "" {
				if got != nil {
					t.Errorf("%s: got patch %s, want none", tc.reason, got)
				}
				return
			}
			if diff := cmp.Diff(decoded(t, tc.want), decoded(t, string(got))); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	value := map[string]any{}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return value
}
