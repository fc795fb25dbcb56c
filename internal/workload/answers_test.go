package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/archelon-io/archelon/internal/outcome"
)

// TestAnswersTakeLittleMemory asks servers for answers that become many times their size.
func TestAnswersTakeLittleMemory(t *testing.T) {
	const few = 256 << 20
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
		"HugeObject": {
			reason: "no object has millions of elements", call: getDeployment, want: "WorkloadServerError",
			handler: apiError(200, `{"apiVersion":"apps/v1","kind":"Deployment","spec":[`+elements("{}", 8<<20-200)+`]}`),
		},
		"Object": {
			reason: "many elements are admitted, but cost little", call: getDeployment,
			handler: apiError(200, `{"apiVersion":"apps/v1","kind":"Deployment","spec":[`+elements("{}", maxAnswerBytes-200)+`]}`),
		},
		"Jobs":    {reason: "nor do Jobs", call: findJob, handler: apiError(200, `{"apiVersion":"batch/v1","kind":"JobList","items":[`+elements("{}", maxAnswerBytes-200)+`]}`)},
		"Applied": {reason: "nor what was applied", call: apply, handler: apiError(200, `{"apiVersion":"v1","kind":"Secret","a":[`+elements("{}", maxAnswerBytes-200)+`]}`)},
		"Kinds": {
			reason: "nor the kinds that a cluster says it has", call: applyOther, want: "WorkloadRejected",
			handler: apiError(200, `{"apiVersion":"v1","kind":"APIResourceList","resources":[`+elements("{}", maxAnswerBytes-200)+`]}`),
		},
		"Refusal": {
			reason: "nor the reasons of a refusal", call: apply, want: "WorkloadConflict",
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
			c := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM))
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
		apiError(http.StatusOK, `{"apiVersion":"apps/v1","kind":"Deployment","a":"`+strings.Repeat("x", int(size.Load()))+`"}`)(w, r)
	})
	c := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM))
	for range largeAnswers {
		c.turns <- struct{}{}
	}
	if err := getDeployment(t.Context(), c); err != nil {
		t.Errorf("an answer of usual size has to wait: %v", err)
	}
	size.Store(usualAnswerBytes)
	patience := c.timeout
	c.timeout = 300 * time.Millisecond
	err := getDeployment(t.Context(), c)
	c.timeout = patience
	wantProblem(t, err, outcome.KindFail, "WorkloadTimeout")

	for range largeAnswers {
		<-c.turns
	}
	for range 2 * largeAnswers {
		if err := getDeployment(t.Context(), c); err != nil {
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
		neverAnswer(nil, r)
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
			c := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				err := findJob(ctx, c)
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

func TestFind(t *testing.T) {
	page := func(next, name string) string {
		return `{"apiVersion":"batch/v1","kind":"JobList","metadata":{"continue":"` + next + `"},"items":[{"metadata":{"name":"` + name + `"}}]}`
	}
	server := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("continue") {
		case "":
			apiError(http.StatusOK, page("second", "a"))(w, r)
		case "second":
			apiError(http.StatusOK, page("", "b"))(w, r)
		}
	})
	found, err := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM)).Find(t.Context(), batchv1.SchemeGroupVersion.WithKind("Job"),
		labels.Set{"a": "b"}, func(job *unstructured.Unstructured) bool { return job.GetName() == "b" })
	if err != nil || found == nil || found.GetName() != "b" {
		t.Errorf("an object on the second page is not found: %v, %v", found, err)
	}

	endless := newAPIServer(t, apiError(http.StatusOK, page("next", "a")))
	err = findJob(t.Context(), connect(t, Options{}, written(t, endless.URL, endless.certificate.certPEM)))
	wantProblem(t, err, outcome.KindFail, "WorkloadServerError")
	if got := endless.requests.Load(); got != maxPages {
		t.Errorf("a list without an end: want %d requests, got %d", maxPages, got)
	}
}
