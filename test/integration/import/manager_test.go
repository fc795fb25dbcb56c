package import_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/process"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	// building is how long a manager may take to be built, after which nothing that others share is read any more.
	building = time.Minute
	// stopping is how long it may take to stop.
	stopping = 2 * time.Minute
)

// inProcess is a manager in the process of the test. It implements stage.Running.
type inProcess struct {
	health string
	cancel context.CancelFunc
	wire   *wire
	log    int // where its part of the journal begins
	done   chan struct{}
	err    error // set before done is closed
}

// launch starts a manager as main does. It implements stage.Launch.
func launch(config *rest.Config, args []string) (stage.Running, error) {
	opts, err := options.New()
	if err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	address, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	if err := flags.Parse(append(slices.Clone(args), "--metrics-bind-address=0", "--health-probe-bind-address="+address[0])); err != nil {
		return nil, err
	}
	opts.Complete()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	// It outlives the node that starts it; Stop and Kill end it.
	ctx, cancel := context.WithCancel(context.Background())
	m := &inProcess{health: "http://" + address[0], cancel: cancel, wire: &wire{}, log: journal.size(), done: make(chan struct{})}
	config = rest.CopyConfig(config)
	config.Wrap(m.wire.wrap)
	metrics.Registry = prometheus.NewRegistry() // Each manager registers the same.
	built := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(m.done)
		m.err = setup.Run(ctx, config, opts, func(o *ctrl.Options) {
			o.Controller.SkipNameValidation = new(true)
			close(built)
		})
	}()
	select {
	case <-built:
	case <-m.done:
	case <-time.After(building):
	}
	return m, nil
}

// Ready implements stage.Running.
func (m *inProcess) Ready(ctx context.Context) error { return stage.Ready(ctx, m.health) }

// Stop implements stage.Running.
func (m *inProcess) Stop() error {
	m.cancel()
	select {
	case <-m.done:
		return m.err
	case <-time.After(stopping):
		return errors.New("the manager did not stop in time")
	}
}

// Kill implements stage.Running. What the manager still wants to ask of the management cluster does not get there.
func (m *inProcess) Kill() {
	m.wire.cut.Store(true)
	m.cancel()
	<-m.done
}

// Done implements stage.Running.
func (m *inProcess) Done() <-chan struct{} { return m.done }

// Logs implements stage.Running.
func (m *inProcess) Logs() string { return journal.from(m.log) }

// wire leads to the management cluster until it is cut.
type wire struct{ cut atomic.Bool }

var errKilled = errors.New("this manager was killed")

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if w.cut.Load() {
			return nil, errKilled
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// journal has the log of all managers of this process.
var journal book

// book keeps what is written.
type book struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// verbosity is the highest level that the manager logs at.
const verbosity = 4

// listen has everything logged here and, for the report of a spec that fails, there.
func (r *book) listen() {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(r)))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// Write implements io.Writer.
func (r *book) Write(p []byte) (int, error) {
	_, _ = GinkgoWriter.Write(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

func (r *book) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Len()
}

func (r *book) from(start int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.data.Bytes()[start:])
}
