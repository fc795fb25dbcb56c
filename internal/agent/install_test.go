package agent

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/archelon-io/archelon/internal/outcome"
)

// What a workload cluster refuses has the name that users know.
func TestInstallNamesProblems(t *testing.T) {
	object := func(more string) string {
		return `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"cattle-system","name":"cattle"` + more + `}}`
	}
	status := func(code, reason, more string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","code":` + code + `,"reason":"` + reason + `","message":"s3cret",` + more + `}`
	}
	for name, tc := range map[string]struct {
		reason  string
		handler http.HandlerFunc
		kind    outcome.Kind
		want    string
		says    string
	}{
		"Applied":     {reason: "it is installed", handler: answer(200, object(""))},
		"Rejected":    {reason: "a policy refuses it", handler: answer(422, status("422", "Invalid", `"details":{}`)), kind: outcome.KindFail, want: "AgentRejected", says: "Applying ServiceAccount cattle-system/cattle"},
		"Conflict":    {reason: "somebody else owns it", handler: answer(409, status("409", "Conflict", `"details":{}`)), kind: outcome.KindFail, want: "AgentConflict"},
		"Other":       {reason: "what has a name already keeps it", handler: answer(401, "{}"), kind: outcome.KindFail, want: "WorkloadUnauthorized"},
		"Terminating": {reason: "an earlier one goes", handler: answer(200, object(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`)), kind: outcome.KindPoll, want: "WaitingForCleanup", says: "ServiceAccount cattle-system/cattle"},
		"NamespaceGoes": {
			reason: "its namespace goes", kind: outcome.KindPoll, want: "WaitingForCleanup", says: "Namespace cattle-system",
			handler: answer(403, status("403", "Forbidden", `"details":{"causes":[{"reason":"NamespaceTerminating"}]}`)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := Install(t.Context(), connect(t, tc.handler), account(), false)
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantProblem(t, err, tc.kind, tc.want)
			if problem, _ := errors.AsType[*outcome.Problem](err); (problem.After > 0) != (tc.kind == outcome.KindPoll) {
				t.Errorf("%s: it is looked at again after %s", tc.reason, problem.After)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v does not say %q", tc.reason, err, tc.says)
			}
		})
	}
}

func account() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"namespace": "cattle-system", "name": "cattle"},
	}}}
}

// Nothing is installed while a clean-up would remove it.
func TestNoCleanup(t *testing.T) {
	jobs := func(items string) http.HandlerFunc {
		return answer(http.StatusOK, `{"apiVersion":"batch/v1","kind":"JobList","metadata":{},"items":[`+items+`]}`)
	}
	if err := NoCleanup(t.Context(), connect(t, jobs(""))); err != nil {
		t.Errorf("nothing is cleaned up: %v", err)
	}
	err := NoCleanup(t.Context(), connect(t, jobs(`{"metadata":{"namespace":"default","name":"cattle-cleanup-x","generateName":"cattle-cleanup-"}}`)))
	wantProblem(t, err, outcome.KindPoll, "WaitingForCleanup")
	if !strings.Contains(err.Error(), "Job default/cattle-cleanup-x") {
		t.Errorf("%v does not say what cleans up", err)
	}
	wantProblem(t, NoCleanup(t.Context(), connect(t, answer(404, "{}"))), outcome.KindFail, "AgentRejected")
}

func TestCleanupPending(t *testing.T) {
	const (
		job       = "GET /apis/batch/v1/jobs?labelSelector=cattle.io%2Fcreator%3Dnorman&limit=20"
		namespace = "GET /api/v1/namespaces/cattle-system"
	)
	cleanup := func(conditions string) string {
		return `{"metadata":{"namespace":"default","name":"cattle-cleanup-x","generateName":"cattle-cleanup-"},"status":{"conditions":[` + conditions + `]}}`
	}
	cases := map[string]struct {
		reason    string
		items     string
		namespace string
		want      string
		asked     []string
	}{
		"None":        {reason: "no Job and no namespace is no clean-up", asked: []string{job, namespace}},
		"Other":       {reason: "Rancher makes other Jobs", items: `{"metadata":{"name":"a-1","generateName":"a-"}}`, asked: []string{job, namespace}},
		"Installed":   {reason: "a namespace that stays is no clean-up", namespace: `{}`, asked: []string{job, namespace}},
		"Terminating": {reason: "the Job is over and what it deleted is not gone", namespace: `{"deletionTimestamp":"2026-01-01T00:00:00Z"}`, want: "Namespace cattle-system", asked: []string{job, namespace}},
		"Failed":      {reason: "a Job that failed for good does nothing any more", items: cleanup(`{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}`), asked: []string{job, namespace}},
		"Complete":    {reason: "a Job that could not delete itself is over", items: cleanup(`{"type":"Complete","status":"True"}`), asked: []string{job, namespace}},
		"Failing":     {reason: "a Job that may succeed yet is under way", items: cleanup(`{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"False"}`), want: "Job default/cattle-cleanup-x", asked: []string{job}},
		"Malformed":   {reason: "conditions that are none say nothing", items: cleanup(`"Failed"`), want: "Job default/cattle-cleanup-x", asked: []string{job}},
		"Found":       {reason: "the clean-up is under way", items: `{"metadata":{"name":"a-1","generateName":"a-"}},{"metadata":{"namespace":"default","name":"cattle-cleanup-x","generateName":"cattle-cleanup-"}}`, want: "Job default/cattle-cleanup-x", asked: []string{job}},
		"Strange":     {reason: "only what can be a name is quoted", items: `{"metadata":{"namespace":"default","name":"token: s3cret","generateName":"cattle-cleanup-"}}`, want: "a Job cattle-cleanup-*", asked: []string{job}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 10)
			cluster := connect(t, func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Method + " " + r.URL.String()
				switch {
				case strings.Contains(r.URL.Path, "/jobs"):
					answer(http.StatusOK, `{"apiVersion":"batch/v1","kind":"JobList","metadata":{},"items":[`+tc.items+`]}`)(w, r)
				case tc.namespace == "":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
				default:
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":`+tc.namespace+`}`)
				}
			})
			got, err := cleanupPending(t.Context(), cluster)
			if err != nil || got != tc.want {
				t.Errorf("%s: want %q, got %q, %v", tc.reason, tc.want, got, err)
			}
			close(asked)
			var requests []string
			for request := range asked {
				requests = append(requests, request)
			}
			if !slices.Equal(requests, tc.asked) {
				t.Errorf("%s: asked %q, want %q", tc.reason, requests, tc.asked)
			}
		})
	}
}
