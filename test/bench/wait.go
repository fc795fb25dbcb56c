package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pause waits, unless the context or the manager ends.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.manager.Done():
		return errors.New("the manager has ended by itself")
	}
}

// chooseAll labels the namespaces of clusters, one after the other.
func (r *run) chooseAll(ctx context.Context, members []member) error {
	if r.options.Pace == 0 {
		return choose(ctx, r.stage, members, r.recorder)
	}
	byNamespace := map[string][]member{}
	for _, m := range members {
		byNamespace[m.namespace] = append(byNamespace[m.namespace], m)
	}
	for _, namespace := range namespacesOf(members) {
		if err := choose(ctx, r.stage, byNamespace[namespace], r.recorder); err != nil {
			return err
		}
		if err := r.pause(ctx, r.options.Pace); err != nil {
			return err
		}
	}
	return nil
}

// await waits for what the recorder will know.
func (r *run) await(ctx context.Context, known func() bool) error {
	timed, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	defer r.tell(r.recorder.states)()
	// To look is not cheap with thousands of clusters, and what happens is noted with its own time.
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !known() {
		select {
		case <-ticker.C:
		case <-timed.Done():
			return fmt.Errorf("not imported within %s: %s: %w", r.options.Timeout, r.recorder.states(), context.Cause(timed))
		case <-r.manager.Done():
			return errors.New("the manager has ended by itself")
		}
	}
	return nil
}

// quiet waits until nothing has happened for a while, to clusters or elsewhere.
func (r *run) quiet(ctx context.Context, elsewhere ...func() time.Time) error {
	for {
		last := r.recorder.quietSince()
		for _, since := range elsewhere {
			if at := since(); at.After(last) {
				last = at
			}
		}
		left := r.options.Settle - time.Since(last)
		if left <= 0 {
			return nil
		}
		if err := r.pause(ctx, left); err != nil {
			return err
		}
	}
}
