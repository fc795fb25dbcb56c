package hub

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// identified is an API server that says who it is.
func identified(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(corev1.NamespaceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "a", ResourceVersion: "1"}}},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func TestAnImportBeginsWithTheClusterThatItWasDecidedFor(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { identified(w) }))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if err := Confirm(t.Context(), config, "a"); err != nil {
		t.Error(err)
	}
	if err := Confirm(t.Context(), config, "b"); !errors.Is(err, errOtherCluster) {
		t.Errorf("got %v", err)
	}
}

// followed is an API server that tells who it is, and what it is asked.
type followed struct {
	asked chan int // for how many seconds it is watched
	seen  chan types.UID
	lost  chan error
}

func newFollowed(t *testing.T, within time.Duration, watching func(http.ResponseWriter, *http.Request)) *followed {
	t.Helper()
	f := &followed{asked: make(chan int, 100), seen: make(chan types.UID, 100), lost: make(chan error, 100)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "true" {
			identified(w)
			return
		}
		seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")) // That it is a number is what the test is about.
		f.asked <- seconds
		watching(w, r)
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	ended := make(chan error, 1)
	go func() {
		ended <- follow(ctx, config, within, func(uid types.UID) { f.seen <- uid }, func(err error) {
			if err != nil {
				f.lost <- err
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
	})
	return f
}

// next returns what comes next, which has to come soon.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}

// What stands before a management cluster may answer for it, so that connections live: a watch that is
// not answered counts as none.
func TestAWatchThatIsNotAnsweredIsNoticed(t *testing.T) {
	f := newFollowed(t, 100*time.Millisecond, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if got := next(t, f.seen); got != "a" {
		t.Errorf("got %q", got)
	}
	if err := next(t, f.lost); !errors.Is(err, errNoAnswer) {
		t.Errorf("got %v", err)
	}
}

// Who watches already goes on to, with permissions or without.
func TestWhoMayAskIsFoundOutEachMinute(t *testing.T) {
	f := newFollowed(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if got := next(t, f.asked); got < 1 || got > 60 {
		t.Errorf("it watches for %d seconds", got)
	}
}

// client-go would try ten times, and take it for a watch without events then.
func TestAResetIsSaidAtOnce(t *testing.T) {
	f := newFollowed(t, time.Minute, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	next(t, f.asked)
	if err := next(t, f.lost); err == nil || len(f.asked) > 1 {
		t.Errorf("got %v after %d more watches", err, len(f.asked))
	}
}

// An answer that comes as the time runs out is none: nothing more can be read of it, and who is
// silent would count as there.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	closed := make(chan struct{})
	late := &exchange{within: time.Millisecond, base: roundTrip(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return &http.Response{StatusCode: http.StatusOK, Body: closing{closed}}, nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := late.RoundTrip(req)
	if silent, ok := errors.AsType[*silence](err); !ok || !errors.Is(silent.cause, errNoAnswer) {
		t.Errorf("got %v", err)
	}
	if answer != nil {
		t.Errorf("got an answer with status %d", answer.StatusCode)
		_ = answer.Body.Close()
	}
	next(t, closed)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

type closing struct{ closed chan struct{} }

func (closing) Read([]byte) (int, error) { return 0, io.EOF }

func (c closing) Close() error { close(c.closed); return nil }
