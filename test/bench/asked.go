package main

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// asked are requests.
type asked struct{ get, list, patch int64 }

// counter counts the requests of a controller in this process. Watches are not counted: they last. Neither are the
// questions which kinds there are.
type counter struct {
	get, list, patch atomic.Int64
	// events are those that tell people, others what is none of all these.
	events, others atomic.Int64
	// last is when something else than Events was asked for, in nanoseconds.
	last atomic.Int64
}

// counting counts what goes through.
func (c *counter) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		c.count(request)
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (c *counter) count(request *http.Request) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	kinds := parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3
	switch {
	case kinds, request.URL.Query().Has("watch"):
		return
	case strings.Contains(request.URL.Path, "/events"):
		c.events.Add(1)
		return
	case request.Method == http.MethodPatch:
		c.patch.Add(1)
	case request.Method == http.MethodGet && request.URL.Query().Has("resourceVersion"):
		c.list.Add(1)
	case request.Method == http.MethodGet:
		c.get.Add(1)
	default:
		c.others.Add(1)
	}
	c.last.Store(time.Now().UnixNano())
}

// so are the requests so far.
func (c *counter) so() asked { return asked{c.get.Load(), c.list.Load(), c.patch.Load()} }

// all counts everything.
func (c *counter) all() int64 {
	return c.get.Load() + c.list.Load() + c.patch.Load() + c.events.Load() + c.others.Load()
}

// settle waits until nothing has been asked or evaluated for two seconds, and returns when something was last.
func (c *counter) settle(ctx context.Context) (time.Time, error) {
	const quiet, look = 2 * time.Second, 20 * time.Millisecond
	before, evaluated, since := c.all(), reconciles(), time.Time{}
	began := time.Now()
	for time.Since(began) < quiet {
		if err := pause(ctx, look); err != nil {
			return since, err
		}
		if now, ran := c.all(), reconciles(); now != before || ran != evaluated {
			before, evaluated, since, began = now, ran, time.Now(), time.Now()
		}
	}
	return since, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// reconciles counts the runs of controllers in this process.
func reconciles() int64 {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return -1
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return int64(total)
}
