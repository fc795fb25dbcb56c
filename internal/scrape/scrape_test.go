package scrape

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// judge is an API server that knows the tokens of readers, of strangers and of nobody else.
type judge struct {
	mu sync.Mutex
	// down: it answers with an error. silent: who a token belongs to is all it says. none: nobody may read.
	down, silent, none bool
	asked              []string
	reviewed           []authorizationv1.SubjectAccessReviewSpec
}

// The tokens that it knows. Nothing else has such a text.
const (
	readerToken   = "token-of-a-reader"
	strangerToken = "token-of-a-stranger"
	namelessToken = "token-of-nobody"
)

func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	j.asked = append(j.asked, kind)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case j.down, j.silent && kind == "subjectaccessreviews":
		w.WriteHeader(http.StatusInternalServerError)
	case kind == "tokenreviews":
		review := &authenticationv1.TokenReview{}
		_ = json.NewDecoder(r.Body).Decode(review)
		switch review.Spec.Token {
		case readerToken, strangerToken:
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{
				Username: review.Spec.Token[len("token-of-a-"):], UID: "1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
			}
		case namelessToken:
			review.Status.Authenticated = true
		default:
			review.Status.Error = "no such token: " + review.Spec.Token
		}
		review.Spec.Token = ""
		answer(w, review)
	case kind == "subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		_ = json.NewDecoder(r.Body).Decode(review)
		j.reviewed = append(j.reviewed, review.Spec)
		review.Status.Allowed = !j.none && review.Spec.User == "reader" && review.Spec.NonResourceAttributes.Path == "/metrics"
		answer(w, review)
	}
}

func answer(w http.ResponseWriter, review any) {
	if err := json.NewEncoder(w).Encode(review); err != nil {
		panic(err)
	}
}

// asks returns how often it was asked since the last call.
func (j *judge) asks() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.asked)
	j.asked = nil
	return n
}

type metrics struct {
	*judge

	handler http.Handler
	clock   *clocktesting.FakePassiveClock
	logged  *strings.Builder
}

func guarded(t *testing.T) *metrics {
	t.Helper()
	m := &metrics{judge: &judge{}, clock: clocktesting.NewFakePassiveClock(time.Now()), logged: &strings.Builder{}}
	server := httptest.NewServer(m.judge)
	t.Cleanup(server.Close)
	filter, err := only(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, server.Client(), m.clock)
	if err != nil {
		t.Fatal(err)
	}
	log := funcr.New(func(_, args string) { m.logged.WriteString(args) }, funcr.Options{Verbosity: 10})
	m.handler, err = filter(log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "all metrics") }))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// get returns the answer to a request with a header Authorization.
func (m *metrics) get(t *testing.T, path, authorization string) (int, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	m.handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func TestWhoMayReadMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, path, authorization string
		down, silent                bool
		want, asked                 int
	}{
		"Reader":      {reason: "who may, may", authorization: "Bearer " + readerToken, want: 200, asked: 2},
		"AnyCase":     {reason: "the scheme has no case", authorization: "bearer  " + readerToken, want: 200, asked: 2},
		"OtherPath":   {reason: "permission for a path is for that path", path: "/debug", authorization: "Bearer " + readerToken, want: 403, asked: 2},
		"NoToken":     {reason: "nobody is asked about no token", want: 401},
		"EmptyToken":  {reason: "an empty token is none", authorization: "Bearer ", want: 401},
		"Password":    {reason: "only tokens are known", authorization: "Basic " + readerToken, want: 401},
		"Alone":       {reason: "a token has a scheme", authorization: readerToken, want: 401},
		"Unknown":     {reason: "a token that the API server does not know", authorization: "Bearer token-of-a-thief", want: 401, asked: 1},
		"Nameless":    {reason: "a user without a name would be asked about as nobody", authorization: "Bearer " + namelessToken, want: 401, asked: 1},
		"Stranger":    {reason: "a user who may not", authorization: "Bearer " + strangerToken, want: 403, asked: 2},
		"Down":        {reason: "who cannot ask does not let in", down: true, authorization: "Bearer " + readerToken, want: 500, asked: 1},
		"NoAnswerYet": {reason: "nor who has half an answer", silent: true, authorization: "Bearer " + readerToken, want: 500, asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := guarded(t)
			m.down, m.silent = tc.down, tc.silent
			path := tc.path
			if path == "" {
				path = "/metrics"
			}
			code, body := m.get(t, path, tc.authorization)
			if code != tc.want || (body == "all metrics") != (tc.want == http.StatusOK) {
				t.Errorf("%s: got %d %q, want %d", tc.reason, code, body, tc.want)
			}
			if n := m.asks(); n != tc.asked {
				t.Errorf("%s: %d questions, want %d", tc.reason, n, tc.asked)
			}
			if told := m.logged.String() + body; strings.Contains(told, "token-of-") {
				t.Errorf("it tells a token: %s", told)
			}
		})
	}
}

func TestWhatIsAskedAboutAReader(t *testing.T) {
	m := guarded(t)
	m.get(t, "/metrics", "Bearer "+readerToken)
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "reader", UID: "1", Groups: []string{"g", "system:authenticated"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}
	if diff := cmp.Diff(want, m.reviewed); diff != "" {
		t.Error(diff)
	}
}

// A reader comes every few seconds. What it lost is noticed within a minute, and one who may not
// read is asked about each time.
func TestAReaderIsAskedAboutOnceAMinute(t *testing.T) {
	m := guarded(t)
	for _, step := range []struct {
		after               time.Duration
		path, authorization string
		want, asked         int
	}{
		{0, "/metrics", readerToken, 200, 2},
		{59 * time.Second, "/metrics", readerToken, 200, 0},
		{0, "/debug", readerToken, 403, 2},
		{0, "/debug", readerToken, 403, 2},
		{0, "/metrics", strangerToken, 403, 2},
		{0, "/metrics", strangerToken, 403, 2},
		{2 * time.Second, "/metrics", readerToken, 200, 2},
	} {
		m.clock.SetTime(m.clock.Now().Add(step.after))
		if code, _ := m.get(t, step.path, "Bearer "+step.authorization); code != step.want {
			t.Errorf("%+v: got %d", step, code)
		}
		if n := m.asks(); n != step.asked {
			t.Errorf("%+v: %d questions", step, n)
		}
	}
}

// What the manager asks is counted as its own by the API server, whoever made it ask.
func TestStrangersDoNotMakeItAskForEver(t *testing.T) {
	m := guarded(t)
	if code, _ := m.get(t, "/metrics", "Bearer "+readerToken); code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	m.asks()
	flood := func() map[int]int {
		codes := map[int]int{}
		for n := range 200 {
			code, _ := m.get(t, "/metrics", fmt.Sprintf("Bearer made-up-%d", n))
			codes[code]++
		}
		return codes
	}
	if diff := cmp.Diff(map[int]int{401: atOnce - 1, 429: 201 - atOnce}, flood()); diff != "" { // The reader was a stranger once.
		t.Error(diff)
	}
	if n := m.asks(); n != atOnce-1 {
		t.Errorf("%d questions", n)
	}
	m.clock.SetTime(m.clock.Now().Add(time.Second))
	if diff := cmp.Diff(map[int]int{401: perSecond, 429: 200 - perSecond}, flood()); diff != "" {
		t.Error(diff)
	}
	m.clock.SetTime(m.clock.Now().Add(remembered))
	flood()
	if code, _ := m.get(t, "/metrics", "Bearer "+readerToken); code != http.StatusOK {
		t.Errorf("a reader has to wait for strangers: %d", code)
	}
}

// One who may not read any more is a stranger again.
func TestAReaderThatMayNotAnyMore(t *testing.T) {
	m := guarded(t)
	m.get(t, "/metrics", "Bearer "+readerToken)
	m.clock.SetTime(m.clock.Now().Add(remembered))
	m.down = true
	if code, _ := m.get(t, "/metrics", "Bearer "+readerToken); code != http.StatusInternalServerError {
		t.Errorf("got %d while nobody says so", code)
	}
	m.down, m.none = false, true
	if code, _ := m.get(t, "/metrics", "Bearer "+readerToken); code != http.StatusForbidden {
		t.Errorf("got %d", code)
	}
	for range atOnce {
		m.get(t, "/metrics", "Bearer "+readerToken)
	}
	if code, _ := m.get(t, "/metrics", "Bearer "+readerToken); code != http.StatusTooManyRequests {
		t.Errorf("got %d after many questions", code)
	}
}
