package setup

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/archelon-io/archelon/internal/shard"
)

// listen returns probes at a free port.
func listen(t *testing.T, always map[string]healthz.Checker) *probes {
	t.Helper()
	p, err := newProbes(t.Context(), "127.0.0.1:0", always)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get returns the status and the body of a probe.
func (p *probes) get(ctx context.Context, t *testing.T, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listener.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// goOn runs something until the test ends, which it must do without an error then.
func goOn(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestProbesAreServedFromOneManagerToTheNext(t *testing.T) {
	bad := errors.New("bad")
	certificate := bad
	p := listen(t, map[string]healthz.Checker{"webhook": func(*http.Request) error { return certificate }})
	goOn(t, p.serve)
	expect := func(reason, path string, status int, text string) {
		t.Helper()
		got, body := p.get(t.Context(), t, path)
		if got != status || !strings.Contains(body, text) {
			t.Errorf("%s: %s is %d %q, want %d with %q", reason, path, got, body, status, text)
		}
	}
	expect("it starts", "/healthz", 200, "ok")
	expect("it starts", "/readyz", 500, "[-]caches failed")
	p.waiting()
	expect("it waits for rights", "/healthz", 200, "ok")
	expect("it could not answer the API server", "/readyz", 500, "[-]webhook failed")
	certificate = nil
	expect("it waits for rights", "/readyz", 200, "ok")
	caches := bad
	p.readyWhen(map[string]healthz.Checker{"caches": func(*http.Request) error { return caches }})
	expect("a manager fills its caches", "/readyz?verbose", 500, "[-]caches failed")
	expect("one check alone", "/readyz/webhook", 200, "ok")
	old := errors.New("CAPI serves v1beta1 only")
	p.readyWhen(map[string]healthz.Checker{"caches": func(*http.Request) error { return caches }, "crds": func(*http.Request) error { return old }})
	expect("CAPI is too old", "/readyz", 500, "[-]crds failed: reason withheld")
	expect("the remedy is told", "/readyz", 500, "\nCAPI serves v1beta1 only\n")
	expect("also alone", "/readyz/crds", 500, "CAPI serves v1beta1 only")
	caches, old = nil, nil
	expect("a manager runs", "/readyz?verbose", 200, "[+]webhook ok")
	expect("a manager runs", "/readyz/caches", 200, "ok")
	p.starting()
	expect("between two managers", "/readyz", 500, "[-]caches failed")
	expect("between two managers", "/healthz", 200, "ok")
}

func TestAnInstanceWithoutRightsAnywhereLivesAndIsReady(t *testing.T) {
	scope, err := shard.New([]string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Resource: "secrets"}
	p := &process{
		rights: &access{
			reviews: &reviews{refused: map[string]bool{"a: list secrets": true}},
			scope:   scope, watched: []schema.GroupResource{resource}, lacking: prometheus.NewGauge(prometheus.GaugeOpts{}), logger: logr.Discard(),
		},
		probes: listen(t, nil),
	}
	goOn(t, func(ctx context.Context) error {
		return during(ctx, p.runManagers, service{name: "probes", serve: p.probes.serve})
	})
	if status, body := p.probes.get(t.Context(), t, "/healthz"); status != 200 {
		t.Errorf("liveness is %d %q", status, body)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		status, _ := p.probes.get(ctx, t, "/readyz")
		return status == 200, nil
	})
	if err != nil {
		t.Errorf("it does not get ready: %v", err)
	}
}

func TestAProbeAddressThatIsTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	if _, err := newProbes(t.Context(), taken.Addr().String(), nil); err == nil {
		t.Error("no error")
	}
	for _, off := range []string{"", "0"} {
		p, err := newProbes(t.Context(), off, nil)
		if err != nil || p.listener != nil {
			t.Errorf("%q: listening at %v, error %v", off, p.listener, err)
		}
	}
}

func TestDuring(t *testing.T) {
	broken := errors.New("broken")
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return nil }
	fail := func(context.Context) error { return broken }
	none := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		reason     string
		run, serve func(context.Context) error
		want       error
	}{
		"RunEnds":      {reason: "services end with what they are for", run: none, serve: untilEnd},
		"RunFails":     {reason: "its error is passed on", run: fail, serve: untilEnd, want: broken},
		"ServiceFails": {reason: "an address that cannot be bound ends the process", run: untilEnd, serve: fail, want: broken},
		"NothingToDo":  {reason: "a service that is off ends nothing", run: func(context.Context) error { return nil }, serve: none},
	} {
		t.Run(name, func(t *testing.T) {
			if err := during(t.Context(), tc.run, service{name: "it", serve: tc.serve}); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%s: got %v, want %v", tc.reason, err, tc.want)
			}
		})
	}
}
