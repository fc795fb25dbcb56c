package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a workload cluster says of its agent becomes part of messages only in the form of names.
func TestAgentNamesItsOwner(t *testing.T) {
	const long = "s3cret-bearer-token-of-the-workload"
	tests := map[string]struct {
		reason             string
		url, cluster, note string
		host, ofThree      string
	}{
		"Plain":     {reason: "as Rancher writes it", url: "https://Rancher.example.com:8443/x", cluster: "c-abcde", host: "rancher.example.com", ofThree: "c-abcde"},
		"Address":   {reason: "an address is a host", url: "https://[fd00::1]:8443", host: "fd00::1"},
		"Noted":     {reason: "as we note it", url: "https://rancher.example.com", note: "c-noted", host: "rancher.example.com", ofThree: "c-noted"},
		"Both":      {reason: "Rancher knows better", cluster: "c-abcde", note: "c-noted", ofThree: "c-abcde"},
		"BadNote":   {reason: "a note is a stranger's text as well", note: long + "_"},
		"Zone":      {reason: "a zone could hold anything", url: "https://[fe80::1%25" + long + "]"},
		"Text":      {reason: "no URL", url: "call me " + long + "\n", cluster: "Not a name"},
		"Userinfo":  {reason: "a password is not quoted", url: "https://u:" + long + "@rancher.example.com", host: "rancher.example.com"},
		"Underline": {reason: "no host can be called so", url: "https://_" + long + "_", cluster: "c_abcde"},
		"TooLong":   {reason: "a name has an end", url: "https://" + strings.Repeat("a.", 200) + "com", cluster: strings.Repeat("a", 64)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deployment, secret := containers(0), `"metadata":{"annotations":{"archelon.io/agent-cluster":"`+test.note+`"}},"data":{"token":"`+encode64(secretToken)+`","url":"`+encode64(test.url)+`","namespace":"`+encode64(test.cluster)+`"}`
			server := newAPIServer(t, agentAPI(deployment, secret))
			state, err := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM)).Agent(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if state.Host() != test.host || state.ClusterName != test.ofThree {
				t.Errorf("%s: got host %q and cluster %q", test.reason, state.Host(), state.ClusterName)
			}
			if !state.HasToken([]string{"other", secretToken}) || state.HasToken([]string{"other"}) || (AgentState{}).HasToken([]string{""}) {
				t.Error("the token is not recognised")
			}
		})
	}
}

// An agent whose credentials are gone still says where its Pods connect to.
func TestAgentWithoutCredentialsNamesItsServer(t *testing.T) {
	deployment := strings.Replace(containers(0), `{"name":"CATTLE_CA_CHECKSUM","value":"cafe"}`, `{"name":"CATTLE_SERVER","value":"https://there.example.com"}`, 1)
	server := newAPIServer(t, agentAPI(strings.Replace(deployment, "cattle-credentials-x", "", 1), ""))
	state, err := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM)).Agent(t.Context())
	if err != nil || state.Host() != "there.example.com" || !state.BelongsTo("https://there.example.com/") {
		t.Errorf("got %v, %v", state, err)
	}
}

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
			state := AgentState{env: func() map[string]string { return test.have }}
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
