package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Limits of the server of probes.
const (
	probeHeaderTimeout   = 30 * time.Second
	probeShutdownTimeout = 5 * time.Second
)

// crdCheck is the readiness check whose reason anybody may read: a version that is too old passes by no waiting.
const crdCheck = "crds"

var errStarting = errors.New("the manager starts")

// probes serves /healthz and /readyz for the whole life of the process. A manager's own server would not be there while an instance waits for
// rights in the first of its namespaces, and a Pod without an answer to its liveness probe is killed.
type probes struct {
	listener net.Listener // nil if they are off
	always   map[string]healthz.Checker
	ready    atomic.Pointer[healthz.Handler]
}

// newProbes takes the address. What has to hold whenever this process is ready is always checked.
func newProbes(ctx context.Context, address string, always map[string]healthz.Checker) (*probes, error) {
	p := &probes{always: always}
	p.starting()
	if address == "" || address == "0" {
		return p, nil
	}
	var err error
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return nil, fmt.Errorf("listening for probes: %w", err)
	}
	return p, nil
}

// readyWhen makes readiness depend on checks, instead of those before.
func (p *probes) readyWhen(checks map[string]healthz.Checker) {
	all := maps.Clone(p.always)
	if all == nil {
		all = map[string]healthz.Checker{}
	}
	maps.Copy(all, checks)
	p.ready.Store(&healthz.Handler{Checks: all})
}

// starting is before there is a manager, and between two.
func (p *probes) starting() {
	p.readyWhen(map[string]healthz.Checker{"caches": func(*http.Request) error { return errStarting }})
}

// waiting is while the instance has rights in none of its namespaces. It does all that it may, so it is ready: Helm, which would wait for that, is the
// one that makes the RoleBindings.
func (p *probes) waiting() { p.readyWhen(nil) }

// serve serves until the context ends.
func (p *probes) serve(ctx context.Context) error {
	if p.listener == nil {
		return nil
	}
	server := &manager.Server{
		Name: "health probe", Listener: p.listener, ShutdownTimeout: new(probeShutdownTimeout),
		Server: &http.Server{Handler: p.handler(), ReadHeaderTimeout: probeHeaderTimeout},
	}
	return server.Start(ctx)
}

// handler answers as the server of a manager does.
func (p *probes) handler() http.Handler {
	ready := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := p.ready.Load()
		handler.ServeHTTP(w, r)
		if check, all := handler.Checks[crdCheck], r.URL.Path == "" || r.URL.Path == "/"; check != nil && all {
			if err := check(r); err != nil {
				_, _ = fmt.Fprintln(w, err) // The handler withholds reasons.
			}
		}
	})
	mux := http.NewServeMux()
	for path, handler := range map[string]http.Handler{
		"/healthz": &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}},
		"/readyz":  ready,
	} {
		mux.Handle(path, http.StripPrefix(path, handler))
		mux.Handle(path+"/", http.StripPrefix(path, handler)) // a single check
	}
	return mux
}
