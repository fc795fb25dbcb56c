package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
)

// free returns an address of this machine at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// probe returns the status and the body of a probe, or what went wrong.
func probe(ctx context.Context, address, path string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err.Error()
	}
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(response.StatusCode, " ", string(body))
}

// tenantOf returns a process that names one namespace, and whose API server answers questions about permissions.
func tenantOf(t *testing.T, answer func(*http.Request) bool) *process {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if strings.Contains(request.URL.Path, "/coordination.k8s.io/") {
			answerLeases(w, request)
			return
		}
		review := &authorizationv1.SelfSubjectAccessReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed = answer(request)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(api.Close)
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	opts.LeaderElectNamespace = "system"
	opts.Namespaces, opts.HealthProbeBindAddress, opts.MetricsBindAddress = []string{"a"}, free(t), "0"
	lacking, err := newLacking(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	instances, err := instance.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &process{config: config, opts: opts, meters: &meters{lacking: lacking, instances: instances}}
}

// answerLeases is an API server that takes a Lease, and shows no Lease to those who watch.
func answerLeases(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if request.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, request.Body)
		return
	}
	if request.URL.Query().Get("watch") == "" {
		_, _ = io.WriteString(w, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		return
	}
	_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1",
		"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	_ = http.NewResponseController(w).Flush()
	<-request.Context().Done()
}

// eventually waits until a probe has an answer.
func eventually(t *testing.T, reason, address, path, want string) {
	t.Helper()
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		got = probe(ctx, address, path)
		return strings.HasPrefix(got, want), nil
	})
	if err != nil {
		t.Errorf("%s: %s is %q, want %q", reason, path, got, want)
	}
}

// decided is what becomes of the question where to work.
type decided struct {
	place *place
	err   error
}

func decide(ctx context.Context, p *process) <-chan decided {
	result := make(chan decided, 1)
	go func() {
		place, err := p.place(ctx)
		result <- decided{place, err}
	}()
	return result
}

// expectReleased wants the address for the manager.
func expectReleased(t *testing.T, address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("the manager could not serve probes: %v", err)
	}
	_ = listener.Close()
}

func TestAnInstanceWithoutRightsAnywhereLivesAndIsReady(t *testing.T) {
	p := tenantOf(t, func(*http.Request) bool { return false })
	ctx, stop := context.WithCancel(t.Context())
	result := decide(ctx, p)
	eventually(t, "it waits for the first namespace", p.opts.HealthProbeBindAddress, "/healthz", "200 ok")
	eventually(t, "Helm waits for it", p.opts.HealthProbeBindAddress, "/readyz", "200 ok")
	stop()
	if got := <-result; got.place != nil || !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %v, want no place", got)
	}
	expectReleased(t, p.opts.HealthProbeBindAddress)
}

func TestAnInstanceLivesWhileTheAPIServerIsSilent(t *testing.T) {
	silent := make(chan struct{})
	p := tenantOf(t, func(request *http.Request) bool {
		select {
		case <-silent:
		case <-request.Context().Done():
		}
		return true
	})
	result := decide(t.Context(), p)
	eventually(t, "it asks", p.opts.HealthProbeBindAddress, "/healthz", "200 ok")
	eventually(t, "it asks", p.opts.HealthProbeBindAddress, "/readyz", "500 [-]permissions failed")
	close(silent)
	got := <-result
	if got.err != nil || got.place.claim.Scope.String() != "namespaces a" {
		t.Errorf("got %v, want the namespace", got)
	}
	expectReleased(t, p.opts.HealthProbeBindAddress)
}

func TestAProbeAddressThatIsTaken(t *testing.T) {
	p := tenantOf(t, func(*http.Request) bool { return false })
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", p.opts.HealthProbeBindAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	if _, err := p.place(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want the address", err)
	}
}

func TestTheFirstSentenceIsTheOnlyOne(t *testing.T) {
	var log []string
	ctx, end := newEnding(t.Context(), funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{}))
	if ctx.Err() != nil {
		t.Error("it has ended already")
	}
	end.because("The scope has changed", "namespaces", []string{"a"})
	end.because("Something else")
	want := []string{`"level"=0 "msg"="The scope has changed; the process ends, to be started again" "namespaces"=["a"]`}
	if diff := cmp.Diff(want, log); diff != "" || ctx.Err() == nil {
		t.Errorf("the context has ended: %v, the log has (-want +got):\n%s", ctx.Err(), diff)
	}
}
