package workload

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/archelon-io/archelon/internal/outcome"
)

// agentAPI answers for an agent's Deployment and Secret.
func agentAPI(deployment, secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/deployments/") {
			apiError(http.StatusOK, `{"apiVersion":"apps/v1","kind":"Deployment",`+deployment+`}`)(w, r)
			return
		}
		apiError(http.StatusOK, `{"apiVersion":"v1","kind":"Secret",`+secret+`}`)(w, r)
	}
}

// containers is the content of a Deployment with an agent, and padding of n bytes in an annotation.
func containers(n int) string {
	return `"metadata":{"name":"cattle-cluster-agent","annotations":{"a":"` + strings.Repeat("x", n) + `"}},` + agentSpec
}

const agentSpec = `"spec":{"template":{"spec":{"containers":[{"name":"sidecar"},{"name":"agent","env":[
			{"name":"CATTLE_CA_CHECKSUM","value":"cafe"},{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},
			{"name":"CATTLE_CREDENTIAL_NAME","value":"cattle-credentials-x"}]}]}}}`

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
			server := newAPIServer(t, agentAPI(tc.deployment, tc.secret))
			state, err := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM)).Agent(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ok, why := state.CanConnect("https://rancher.example.com", []string{secretToken}, "cafe")
			if ok != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("%s: got %t, %q", tc.reason, ok, why)
			}
			wantNoSecret(t, state)
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
			server := newAPIServer(t, agentAPI(tc.deployment, `"data":null`))
			state, err := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM)).Agent(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if state.Deployed != tc.want {
				t.Errorf("Deployed = %t, want %t: %s", state.Deployed, tc.want, tc.reason)
			}
		})
	}
}

// TestAnswersTakeLittleMemory asks servers for answers that become many times their size.
func TestAnswersTakeLittleMemory(t *testing.T) {
	const few = 256 << 20
	agent := func(ctx context.Context, c *Client) error { _, err := c.Agent(ctx); return err }
	cleanup := func(ctx context.Context, c *Client) error { _, err := c.CleanupPending(ctx); return err }
	apply := func(ctx context.Context, c *Client) error {
		return c.Apply(ctx, []*unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "cattle-system", "name": "x"},
		}}}, false)
	}
	applyOther := func(ctx context.Context, c *Client) error {
		return c.Apply(ctx, []*unstructured.Unstructured{object("scheduling.k8s.io/v1", "PriorityClass", "", "x")}, false)
	}
	// elements is a list of n bytes.
	elements := func(element string, n int) string { return strings.Repeat(element+",", n/(len(element)+1)) + element }
	cases := map[string]struct {
		reason  string
		handler http.HandlerFunc
		call    func(context.Context, *Client) error
		want    string
	}{
		"HugeDeployment": {
			reason: "no agent has millions of containers", call: agent, want: "WorkloadServerError",
			handler: agentAPI(`"spec":{"template":{"spec":{"containers":[`+elements("{}", 8<<20-200)+`]}}}`, ""),
		},
		"Deployment": {
			reason: "many containers are admitted, but cost little", call: agent,
			handler: agentAPI(`"spec":{"template":{"spec":{"containers":[`+elements("{}", maxAnswerBytes-200)+`]}}}`, ""),
		},
		"Secret": {
			reason: "nor does a Secret grow", call: agent,
			handler: agentAPI(containers(0), `"metadata":{"managedFields":[`+elements("{}", maxAnswerBytes-200)+`]}`),
		},
		"Jobs":    {reason: "nor do Jobs", call: cleanup, handler: apiError(200, `{"apiVersion":"batch/v1","kind":"JobList","items":[`+elements("{}", maxAnswerBytes-200)+`]}`)},
		"Applied": {reason: "nor what was applied", call: apply, handler: apiError(200, `{"apiVersion":"v1","kind":"Secret","a":[`+elements("{}", maxAnswerBytes-200)+`]}`)},
		"Kinds": {
			reason: "nor the kinds that a cluster says it has", call: applyOther, want: "AgentRejected",
			handler: apiError(200, `{"apiVersion":"v1","kind":"APIResourceList","resources":[`+elements("{}", maxAnswerBytes-200)+`]}`),
		},
		"Refusal": {
			reason: "nor the reasons of a refusal", call: apply, want: "AgentConflict",
			handler: apiError(409, `{"kind":"Status","apiVersion":"v1","code":409,"reason":"Conflict","details":{"causes":[`+elements("{}", maxRefusalBytes-200)+`]}}`),
		},
		"HugeRefusal": {
			reason: "what is cut off of a refusal does not hide it", call: apply, want: "WorkloadUnauthorized",
			handler: apiError(401, `{"kind":"Status","apiVersion":"v1","code":401,"details":{"causes":[`+elements("{}", 8<<20)+`]}}`),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t, tc.handler)
			c := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tc.call(t.Context(), c)
			runtime.ReadMemStats(&after)
			got := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB", got>>10)
			if got > few {
				t.Errorf("%s: took %d MiB of memory", tc.reason, got>>20)
			}
			if tc.want != "" {
				wantProblem(t, err, outcome.KindFail, tc.want)
			} else if err != nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}

// TestLargeAnswersTakeTurns has as many calls in possession of large answers as there are turns, and then another.
func TestLargeAnswersTakeTurns(t *testing.T) {
	var size atomic.Int64
	server := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		agentAPI(containers(int(size.Load())), `"data":{}`)(w, r)
	})
	c := connect(t, Options{Timeout: 300 * time.Millisecond}, kubeconfig(t, server.URL, server.certificate.certPEM))
	for range largeAnswers {
		c.turns <- struct{}{}
	}
	if _, err := c.Agent(t.Context()); err != nil {
		t.Errorf("an answer of usual size has to wait: %v", err)
	}
	size.Store(usualAnswerBytes)
	_, err := c.Agent(t.Context())
	wantProblem(t, err, outcome.KindFail, "WorkloadTimeout")

	for range largeAnswers {
		<-c.turns
	}
	for range 2 * largeAnswers {
		if _, err := c.Agent(t.Context()); err != nil {
			t.Errorf("a turn is left free: %v", err)
		}
	}
	if len(c.turns) > 0 {
		t.Errorf("%d turns are not given back", len(c.turns))
	}
}

// TestSlowServersTakeNoTurns asks servers that keep a call busy after or during a large answer.
func TestSlowServersTakeNoTurns(t *testing.T) {
	large := strings.Repeat(" ", 2*usualAnswerBytes)
	var stuck chan struct{}
	wait := func(r *http.Request) {
		stuck <- struct{}{}
		<-r.Context().Done()
	}
	cases := map[string]http.HandlerFunc{
		"HalfAnAnswer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, large)
			_ = http.NewResponseController(w).Flush()
			wait(r)
		},
		"SecondPage": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("continue") != "" {
				wait(r)
			}
			apiError(http.StatusOK, `{"apiVersion":"batch/v1","kind":"JobList","metadata":{"continue":"x"},"items":[]}`+large)(w, r)
		},
		"PauseBeforeAnotherTry": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			apiError(http.StatusTooManyRequests, large)(w, r)
			stuck <- struct{}{}
		},
	}
	for name, handler := range cases {
		t.Run(name, func(t *testing.T) {
			stuck = make(chan struct{}, 10)
			server := newAPIServer(t, handler)
			c := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := c.CleanupPending(ctx)
				ended <- err
			}()
			<-stuck
			if got := len(c.turns); got != 0 {
				t.Errorf("%d turns are taken while a server is waited for", got)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

func TestManyJobs(t *testing.T) {
	const other = `{"metadata":{"name":"a-1","generateName":"a-"}}`
	const cleanup = `{"metadata":{"name":"cattle-cleanup-x","generateName":"cattle-cleanup-"}}`
	page := func(next, item string) string {
		return `{"apiVersion":"batch/v1","kind":"JobList","metadata":{"continue":"` + next + `"},"items":[` + item + `]}`
	}
	server := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("continue") {
		case "":
			apiError(http.StatusOK, page("second", other))(w, r)
		case "second":
			apiError(http.StatusOK, page("", cleanup))(w, r)
		}
	})
	pending, err := connect(t, Options{}, kubeconfig(t, server.URL, server.certificate.certPEM)).CleanupPending(t.Context())
	if err != nil || pending == "" {
		t.Errorf("a Job on the second page is not found: %q, %v", pending, err)
	}

	endless := newAPIServer(t, apiError(http.StatusOK, page("next", other)))
	_, err = connect(t, Options{}, kubeconfig(t, endless.URL, endless.certificate.certPEM)).CleanupPending(t.Context())
	wantProblem(t, err, outcome.KindFail, "WorkloadServerError")
	if got := endless.requests.Load(); got != maxJobPages {
		t.Errorf("a list without an end: want %d requests, got %d", maxJobPages, got)
	}
}

func encode64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
