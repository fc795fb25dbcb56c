package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// agentWith returns the Deployment of an agent with an environment.
func agentWith(environment map[string]string) *unstructured.Unstructured {
	env := []any{}
	for name, value := range environment {
		env = append(env, map[string]any{"name": name, "value": value})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Deployment", "metadata": map[string]any{"name": "cattle-cluster-agent"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"env": env}}}}},
	}}
}

func TestSettingsOfTheAgent(t *testing.T) {
	proxy := []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}}
	tests := map[string]struct {
		reason string
		have   map[string]string
		want   []corev1.EnvVar
		strict bool
		fits   bool
	}{
		"None":    {reason: "nothing is asked for", have: map[string]string{"CATTLE_SERVER": "x", "STRICT_VERIFY": "false", "CATTLE_CREDENTIAL_NAME": "cattle-credentials-x"}, fits: true},
		"Proxy":   {reason: "it has the proxy", have: map[string]string{"HTTPS_PROXY": "http://proxy:3128", "STRICT_VERIFY": "true"}, want: proxy, strict: true, fits: true},
		"Missing": {reason: "it lacks the proxy", have: map[string]string{"STRICT_VERIFY": "false"}, want: proxy},
		"Other":   {reason: "it has another proxy", have: map[string]string{"HTTPS_PROXY": "http://old:3128"}, want: proxy},
		"Left":    {reason: "it has a proxy that is not wanted any more", have: map[string]string{"HTTPS_PROXY": "http://old:3128"}},
		"Mode":    {reason: "it is not strict enough", have: map[string]string{"STRICT_VERIFY": "false"}, strict: true},
		"Elsewhere": {
			reason: "a value that comes from elsewhere is not compared", have: map[string]string{"NODE": ""}, fits: true,
			want: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := State{env: func() map[string]string { return test.have }}
			settings := Settings{Cluster: "c-abcde", Digest: "d", Env: test.want, Strict: test.strict, Dropped: []string{"GONE", "HTTPS_PROXY"}}
			if got := state.Has(settings); got != test.fits {
				t.Errorf("%s: Has() = %t", test.reason, got)
			}
			agent := agentWith(test.have)
			other := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "cattle-cluster-agent"}}}
			secret := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "cattle-credentials-x"}}}
			settings.Mark([]*unstructured.Unstructured{other, secret, agent})
			if got := agent.GetAnnotations()["archelon.io/applied"]; (got == "d") != test.fits || other.GetAnnotations() != nil {
				t.Errorf("%s: a manifest is noted with %q", test.reason, got)
			}
			if got := secret.GetAnnotations()["archelon.io/agent-cluster"]; (got == "c-abcde") != (test.have["CATTLE_CREDENTIAL_NAME"] != "") {
				t.Errorf("%s: the credentials are noted with %q", test.reason, got)
			}
			marked := &deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(agent.Object, marked); err != nil {
				t.Fatal(err)
			}
			after := marked.environment()
			if value, ok := after["GONE"]; !ok || value != "" || after["HTTPS_PROXY"] != test.have["HTTPS_PROXY"] {
				t.Errorf("%s: what was dropped is to be empty, and what is wanted stays: %q", test.reason, after)
			}
		})
	}
}

func TestOutdated(t *testing.T) {
	tests := map[string]struct {
		reason                 string
		applied                string
		known, available, fits bool
		want                   bool
	}{
		"Same":         {reason: "nothing has changed", applied: "d"},
		"SameKnown":    {reason: "nothing has changed since, whatever is there", applied: "d", known: true},
		"Waiting":      {reason: "it waits with other settings", applied: "old", available: true, fits: true, want: true},
		"WaitingOther": {reason: "somebody else has installed it, with settings that are not known", fits: true, want: true},
		"Upgraded":     {reason: "Rancher has another image, and the agent is away for a moment", applied: "old", known: true, available: true, fits: true},
		"NoPods":       {reason: "its Pods do not run, maybe for lack of the new image", applied: "old", known: true, fits: true, want: true},
		"OtherEnv":     {reason: "it needs another proxy to connect again", applied: "old", known: true, available: true, want: true},
		"Adopted":      {reason: "Rancher's own, without Pods: nobody knows why", known: true, fits: true},
		"AdoptedEnv":   {reason: "Rancher's own, which needs another proxy to connect again", known: true, available: true, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := State{Applied: test.applied, Available: test.available, env: func() map[string]string { return map[string]string{"PROXY": "old"} }}
			settings := Settings{Digest: "d", Env: []corev1.EnvVar{{Name: "PROXY", Value: "new"}}}
			if test.fits {
				settings.Env[0].Value = "old"
			}
			if got := state.Outdated(settings, test.known); got != test.want {
				t.Errorf("%s: got %t", test.reason, got)
			}
		})
	}
}
