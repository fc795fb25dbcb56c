package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/archelon-io/archelon/test/stage"
)

// readyTimeout is for the start of the manager.
const readyTimeout = 2 * time.Minute

// start starts the manager and waits until it is ready and has taken its Lease.
func (r *run) start(ctx context.Context, more ...string) error {
	if err := r.launch(ctx, more...); err != nil {
		return err
	}
	// The lease is taken, and every cluster was looked at once, in the moment after.
	return r.pause(ctx, r.options.Settle)
}

// launch starts the manager and waits until it is ready.
func (r *run) launch(ctx context.Context, more ...string) error {
	args := append([]string{
		"--leader-elect", "--leader-elect-namespace=" + stage.SystemNamespace,
		"--sync-period=" + r.options.SyncPeriod.String(),
		fmt.Sprintf("--feature-gates=managementv3-cluster=%t", r.options.Strategy == "v3"),
	}, r.profiler.args()...)
	if r.options.Concurrency > 0 {
		args = append(args, fmt.Sprintf("--concurrency=%d", r.options.Concurrency))
	}
	args = append(append(args, r.options.ManagerArgs...), more...)
	var err error
	if r.manager, err = r.stage.StartManager(ctx, r.binary, nil, args...); err != nil {
		return err
	}
	r.began = time.Now()
	started, err := measure()
	if err != nil {
		return err
	}
	r.memory = followMemory(started.processes["archelon"].PID)
	timed, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	for {
		if last = r.manager.Ready(timed); last == nil {
			break
		}
		if err := r.pause(timed, poll); err != nil {
			return errors.Join(fmt.Errorf("waiting for the manager: %w", err), last)
		}
	}
	r.ready = time.Now()
	return nil
}

// restart ends the manager and starts it with more arguments.
func (r *run) restart(ctx context.Context, more ...string) error {
	if err := r.end(); err != nil {
		return err
	}
	return r.start(ctx, more...)
}

// end stops the manager.
func (r *run) end() error {
	if r.memory != nil {
		r.memory.stop()
	}
	if err := r.manager.Stop(); err != nil {
		return fmt.Errorf("stopping the manager: %w", err)
	}
	return nil
}
