package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// controlServer serves the control API, and the probes of the Pod from before there is one.
type controlServer struct {
	server *http.Server
	done   chan struct{}
	ready  atomic.Pointer[http.Handler]
}

// startControl listens at the address. Until serve it is alive but not ready.
func startControl(ctx context.Context, address string, log logr.Logger) (*controlServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for control: %w", err)
	}
	c := &controlServer{done: make(chan struct{})}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(c.done)
		if err := c.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "the control API ended")
		}
	}()
	return c, nil
}

// serve makes it ready: from now on calls go to the handler.
func (c *controlServer) serve(handler http.Handler) { c.ready.Store(&handler) }

func (c *controlServer) stop() {
	_ = c.server.Close() // the listener is closed whatever it returns
	<-c.done
}

// ServeHTTP implements http.Handler.
func (c *controlServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := c.ready.Load()
	switch {
	case r.URL.Path == "/healthz":
		w.WriteHeader(http.StatusOK)
	case handler == nil:
		http.Error(w, "the Rancher stand-in has not started yet", http.StatusServiceUnavailable)
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusOK)
	default:
		(*handler).ServeHTTP(w, r)
	}
}
