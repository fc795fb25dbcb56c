package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

var _ = Describe("A small benchmark of HostClaims", func() {
	// It asserts what is counted, and no duration.
	It("binds all once, and counts nothing at rest", func(ctx SpecContext) {
		var out bytes.Buffer
		sizes := claimSizes{few: 4, many: 12, delay: 100 * time.Millisecond, quiet: time.Second}
		runs, err := hostClaims(ctx, sizes, &out, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Expect(runs).To(HaveLen(2))
		for i, claims := range []int{4, 12} {
			run := runs[i]
			Expect(run.claims).To(Equal(claims))
			Expect(run.audit).To(Equal(bindings{taken: claims, claims: claims}))
			Expect(run.requests).To(BeNumerically(">=", 4*claims), "each is held, bound, and said to be so")
			Expect(run.took).To(BeNumerically(">", 2*sizes.delay), "caches are late")
			Expect(run.waiting.requests).To(BeNumerically(">=", 2*claims))
			Expect(run.waiting.quiet).To(Equal(time.Second))
			Expect(run.waiting.asked).To(BeZero())
			Expect(run.waiting.ran).To(BeZero())
		}
		Expect(out.String()).To(MatchRegexp(`(?m)^12 .*0 requests, 0 reconciles in 1s$`))
	})
})

func TestClaimBounds(t *testing.T) {
	run := func(claims int, change func(*claimRun)) claimRun {
		r := claimRun{
			claims: claims, took: time.Duration(claims) * time.Millisecond, cpu: float64(claims), apis: float64(claims), requests: int64(8 * claims),
			reconciles: int64(6 * claims), audit: bindings{taken: claims, claims: claims}, waiting: waitingClaims{requests: int64(3 * claims)},
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, change := range map[string]func(*claimRun){
		"requests of a claim":                        func(r *claimRun) { r.requests *= 2 },
		"reconciles of a claim":                      func(r *claimRun) { r.reconciles *= 2 },
		"CPU time of a claim":                        func(r *claimRun) { r.cpu *= 2 },
		"CPU time of the API server":                 func(r *claimRun) { r.apis *= 2 },
		"time of a claim, 1000 by 100, 2 of at most": func(r *claimRun) { r.took *= 2 },
		"until it says that it waits":                func(r *claimRun) { r.waiting.requests *= 2 },
		"hosts that one claim has had":               func(r *claimRun) { r.audit.second = 1 },
		"claims that one host was given to":          func(r *claimRun) { r.audit.shared = 1 },
		"claims without a host":                      func(r *claimRun) { r.audit.claims-- },
		"requests while as many wait":                func(r *claimRun) { r.waiting.asked = 1 },
		"reconciles while as many wait":              func(r *claimRun) { r.waiting.ran = 1 },
	} {
		var out bytes.Buffer
		err := checkClaims([]claimRun{run(100, nil), run(1000, change)}, &out)
		var broken []string
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "BROKEN") {
				broken = append(broken, line)
			}
		}
		if !errors.Is(err, errBounds) || len(broken) != 1 || !strings.Contains(broken[0], name) {
			t.Errorf("%s: got %v and %q", name, err, broken)
		}
	}
	busy := run(1000, func(r *claimRun) { r.took *= 2; r.others = 0.5 })
	if err := checkClaims([]claimRun{run(100, nil), busy}, io.Discard); err != nil {
		t.Errorf("times of a machine that others use are no promise: %v", err)
	}
}

func TestBindingsOf(t *testing.T) {
	event := func(host string, code int32, body string) auditv1.Event {
		return auditv1.Event{
			Verb: "patch", ObjectRef: &auditv1.ObjectReference{Resource: "baremetalhosts", Namespace: "infra", Name: host},
			ResponseStatus: &metav1.Status{Code: code}, RequestObject: &runtime.Unknown{Raw: []byte(body)},
		}
	}
	taken := func(claim string) string { return `{"spec":{"consumerRef":{"name":"c","uid":"` + claim + `"}}}` }
	got, err := bindingsOf([]auditv1.Event{
		event("a", http.StatusOK, taken("1")), event("b", http.StatusConflict, taken("1")), event("b", http.StatusOK, taken("2")),
		event("b", http.StatusOK, `{"spec":{"consumerRef":null}}`), event("b", http.StatusOK, taken("3")), event("c", http.StatusOK, taken("3")),
		event("a", http.StatusOK, `{"metadata":{"annotations":{"x":"y"}}}`), {Verb: "get", ObjectRef: &auditv1.ObjectReference{Resource: "baremetalhosts"}},
	})
	if diff := cmp.Diff(bindings{taken: 4, claims: 3, second: 1, shared: 1}, got, cmp.AllowUnexported(bindings{})); diff != "" || err != nil {
		t.Errorf("-want +got:\n%s, %v", diff, err)
	}
}

func TestLate(t *testing.T) {
	const by = 50 * time.Millisecond
	began := time.Now()
	l := newLate(io.NopCloser(strings.NewReader("what a watch tells")), by)
	told, err := io.ReadAll(l)
	if string(told) != "what a watch tells" || err != nil || time.Since(began) < by {
		t.Errorf("got %q and %v after %s", told, err, time.Since(began))
	}
	pending := newLate(io.NopCloser(strings.NewReader("more")), time.Hour)
	time.AfterFunc(by, func() { _ = pending.Close() })
	if _, err := pending.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("one that is closed says %v", err)
	}
}
