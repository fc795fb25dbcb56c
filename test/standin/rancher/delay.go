package rancher

import (
	"context"
	"strings"
	"sync"
	"time"
)

// delays remembers since when something is waited for, so that a reconciler that is woken
// early neither acts early nor starts the wait anew.
type delays struct {
	mu    sync.Mutex
	since map[string]map[string]time.Time
}

func newDelays() *delays {
	return &delays{since: map[string]map[string]time.Time{}}
}

// remaining returns how much of the wait is left for this step of the owner; the first call
// starts the wait. Zero means that it is over.
func (d *delays) remaining(owner, step string, wait time.Duration) time.Duration {
	if wait <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	steps, ok := d.since[owner]
	if !ok {
		steps = map[string]time.Time{}
		d.since[owner] = steps
	}
	start, ok := steps[step]
	if !ok {
		steps[step] = time.Now()
		return wait
	}
	return max(0, wait-time.Since(start))
}

// forget ends all waits of the owner whose step begins with the prefix.
func (d *delays) forget(owner, prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for step := range d.since[owner] {
		if strings.HasPrefix(step, prefix) {
			delete(d.since[owner], step)
		}
	}
	if len(d.since[owner]) == 0 {
		delete(d.since, owner)
	}
}

// pause waits inside a sequence of writes, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
