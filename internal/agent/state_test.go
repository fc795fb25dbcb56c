package agent

import (
	"encoding/base64"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/test/problem"
)

// agentAPI answers for an agent's Deployment and Secret.
func agentAPI(deployment, secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/deployments/") {
			answer(http.StatusOK, `{"apiVersion":"apps/v1","kind":"Deployment",`+deployment+`}`)(w, r)
			return
		}
		answer(http.StatusOK, `{"apiVersion":"v1","kind":"Secret",`+secret+`}`)(w, r)
	}
}

// containers is the content of a Deployment with an agent, and padding of n bytes in an annotation.
func containers(n int) string {
	return `"metadata":{"name":"cattle-cluster-agent","annotations":{"a":"` + strings.Repeat("x", n) + `"}},` + agentSpec
}

const agentSpec = `"spec":{"template":{"spec":{"containers":[{"name":"sidecar"},{"name":"agent","env":[
			{"name":"CATTLE_CA_CHECKSUM","value":"cafe"},{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},
			{"name":"CATTLE_CREDENTIAL_NAME","value":"cattle-credentials-x"}]}]}}}`

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
			cluster := connect(t, agentAPI(deployment, secret))
			state, err := Inspect(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			if state.Host() != test.host || state.ClusterName != test.ofThree {
				t.Errorf("%s: got host %q and cluster %q", test.reason, state.Host(), state.ClusterName)
			}
			if !state.HasToken([]string{"other", secretToken}) || state.HasToken([]string{"other"}) || (State{}).HasToken([]string{""}) {
				t.Error("the token is not recognised")
			}
		})
	}
}

// An agent whose credentials are gone still says where its Pods connect to.
func TestAgentWithoutCredentialsNamesItsServer(t *testing.T) {
	deployment := strings.Replace(containers(0), `{"name":"CATTLE_CA_CHECKSUM","value":"cafe"}`, `{"name":"CATTLE_SERVER","value":"https://there.example.com"}`, 1)
	cluster := connect(t, agentAPI(strings.Replace(deployment, "cattle-credentials-x", "", 1), ""))
	state, err := Inspect(t.Context(), cluster)
	if err != nil || state.Host() != "there.example.com" || !state.BelongsTo("https://there.example.com/") {
		t.Errorf("got %v, %v", state, err)
	}
}

func TestAgent(t *testing.T) {
	encode := encode64
	working := `"data":{"token":"` + encode(secretToken) + `","url":"` + encode("https://rancher.example.com") + `","other":"AAAA"}`
	cases := map[string]struct {
		reason             string
		deployment, secret string
		want               string
	}{
		"Working":           {reason: "the agent is as Rancher wants it", deployment: containers(0), secret: working},
		"Large":             {reason: "an object may be large", deployment: containers(400 << 10), secret: working},
		"Terminating":       {reason: "it is about to go", deployment: `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},` + agentSpec, secret: working, want: "being deleted"},
		"SecretTerminating": {reason: "its Secret is about to go", deployment: containers(0), secret: `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},` + working, want: "being deleted"},
		"NoEnv":             {reason: "it has no credentials", deployment: `"spec":{}`, want: "names no"},
		"NoName":            {reason: "no Secret can have such a name", deployment: strings.Replace(containers(0), "cattle-credentials-x", strings.Repeat("s3cret ", 10_000), 1), secret: `"data":1`, want: "names no"},
		"NoToken":           {reason: "its Secret is empty", deployment: containers(0), secret: `"data":null`, want: "another URL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := connect(t, agentAPI(tc.deployment, tc.secret))
			state, err := Inspect(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			ok, why := state.CanConnect("https://rancher.example.com", []string{secretToken}, "cafe")
			if ok != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%s: got %t, %q", tc.reason, ok, why)
			}
			problem.Hides(t, state, credential)
		})
	}
}

// An agent that Rancher applied has features, and one of the downloaded manifest has none.
func TestAgentDeployed(t *testing.T) {
	env := func(value string) string {
		return strings.Replace(agentSpec, `{"name":"CATTLE_CA`, `{"name":"CATTLE_FEATURES","value":"`+value+`"},{"name":"CATTLE_CA`, 1)
	}
	for name, tc := range map[string]struct {
		reason, deployment string
		want               bool
	}{
		"Downloaded": {reason: "the manifest has no features", deployment: agentSpec},
		"Deployed":   {reason: "Rancher gives it some, which change from release to release", deployment: env("fleet=false,multi-cluster-management-agent=true"), want: true},
		"Empty":      {reason: "somebody took them away", deployment: env("")},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := connect(t, agentAPI(tc.deployment, `"data":null`))
			state, err := Inspect(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			if state.Deployed != tc.want {
				t.Errorf("Deployed = %t, want %t: %s", state.Deployed, tc.want, tc.reason)
			}
		})
	}
}

func TestCanConnect(t *testing.T) {
	holds := func(token string) func([]string) bool {
		return func(accepted []string) bool { return slices.Contains(accepted, token) }
	}
	working := func(change func(*State)) State {
		s := State{
			Exists: true, CredentialsSecret: "cattle-credentials-x", CredentialsFound: true,
			ServerURL: "https://rancher.example.com", CAChecksum: "cafe", hasToken: holds(secretToken),
		}
		change(&s)
		return s
	}
	cases := map[string]struct {
		reason string
		change func(*State)
		want   string
	}{
		"Working":     {reason: "all is as Rancher wants it", change: func(*State) {}},
		"Slash":       {reason: "a slash at the end makes no difference", change: func(s *State) { s.ServerURL += "/" }},
		"Absent":      {reason: "there is no agent", change: func(s *State) { *s = State{} }, want: "not installed"},
		"Terminating": {reason: "it is about to go", change: func(s *State) { s.Terminating = true }, want: "being deleted"},
		"Unnamed":     {reason: "it has no credentials", change: func(s *State) { s.CredentialsSecret = "" }, want: "names no"},
		"NoSecret":    {reason: "its credentials are gone", change: func(s *State) { s.CredentialsFound = false }, want: "does not exist"},
		"OtherURL":    {reason: "server-url changed", change: func(s *State) { s.ServerURL = "https://old.example.com" }, want: "another URL"},
		"StaleToken":  {reason: "the token was rotated", change: func(s *State) { s.hasToken = holds("old") }, want: "token"},
		"OtherCA":     {reason: "the CA was rotated", change: func(s *State) { s.CAChecksum = "beef" }, want: "another CA"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := working(tc.change)
			ok, why := state.CanConnect("https://rancher.example.com", []string{"system", secretToken}, "cafe")
			if ok != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%s: got %t, %q", tc.reason, ok, why)
			}
			problem.Hides(t, state, credential)
		})
	}
}

// A stranger says how many elements the lists of an object have, which may become many times its size.
func TestInspectTakesLittleMemory(t *testing.T) {
	const few = 256 << 20
	elements := strings.Repeat("{},", 512<<10/3-100) + "{}"
	for name, handler := range map[string]http.HandlerFunc{
		"Deployment": agentAPI(`"spec":{"template":{"spec":{"containers":[`+elements+`]}}}`, ""),
		"Secret":     agentAPI(containers(0), `"metadata":{"managedFields":[`+elements+`]}`),
	} {
		t.Run(name, func(t *testing.T) {
			cluster := connect(t, handler)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Inspect(t.Context(), cluster)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > few || err != nil {
				t.Errorf("took %d MiB of memory: %v", got>>20, err)
			}
		})
	}
}

func encode64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
