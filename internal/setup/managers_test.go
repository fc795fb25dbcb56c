package setup

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
)

// newMachine returns a process whose API server has nothing, and accepts whatever is written. The channel has an item for each Event that it is sent.
func newMachine(t *testing.T) (*process, <-chan struct{}) {
	t.Helper()
	events := make(chan struct{}, 100)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet {
			http.NotFound(w, request)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", request.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		if strings.HasSuffix(request.URL.Path, "/events") {
			events <- struct{}{}
		}
	}))
	t.Cleanup(api.Close)
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	opts.LeaderElect, opts.LeaderElectNamespace = true, "archelon-system"
	registry := prometheus.NewRegistry()
	p := &process{config: &rest.Config{Host: api.URL}, opts: opts, meters: &meters{}, probes: listen(t, nil)}
	if p.meters.imports, err = importer.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if p.meters.info, err = instance.NewInfo(registry); err != nil {
		t.Fatal(err)
	}
	if p.meters.synced, err = newSynced(registry); err != nil {
		t.Fatal(err)
	}
	return p, events
}

// Managers follow one another for the life of the process, as rights grow.
func TestAManagerThatEndsLeavesNothingBehindThatSendsEvents(t *testing.T) {
	p, events := newMachine(t)
	for range 3 {
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.run(running, instance.Claim{}) }()
		select {
		case <-events: // It leads.
		case err := <-done:
			t.Fatalf("the manager ended: %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var senders int
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		senders = running("record.(*eventBroadcasterImpl).StartEventWatcher.func")
		return senders == 0, nil
	})
	if err != nil {
		t.Errorf("%d goroutines wait for Events to send", senders)
	}
}

// running returns how many goroutines run a function.
func running(function string) int {
	stacks := make([]byte, 4<<20)
	count := 0
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, function) {
			count++
		}
	}
	return count
}
