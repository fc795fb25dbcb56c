package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/archelon-io/archelon/test/process"
)

// heapPause is between two heap profiles during the imports.
const heapPause = time.Second

// profiler fetches profiles of the manager. A nil one does nothing.
type profiler struct {
	dir, prefix, address string
}

// newProfiler returns nil if dir is empty.
func newProfiler(dir, strategy string) (*profiler, error) {
	if dir == "" {
		return nil, nil //nolint:nilnil // all methods accept it
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	return &profiler{dir: dir, prefix: strategy + "-" + time.Now().Format("150405"), address: addresses[0]}, nil
}

func (p *profiler) args() []string {
	if p == nil {
		return nil
	}
	return []string{"--profiler-address=" + p.address}
}

// follow profiles CPU and heap until the function that it returns is called.
func (p *profiler) follow(ctx context.Context) func() error {
	if p == nil {
		return func() error { return nil }
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 2)
	// The manager sends a CPU profile at the end of its time only, so it is recorded as a series of short ones.
	go func() { done <- p.series(ctx, running, "profile?seconds=3", "cpu", 0) }()
	// A heap profile shows the state at the end of the last collection. It forces none: that
	// would change what is measured.
	go func() { done <- p.series(ctx, running, "heap", "heap", heapPause) }()
	return func() error {
		cancel()
		return errors.Join(<-done, <-done)
	}
}

// series fetches one profile after the other while running, and finishes the last with ctx.
func (p *profiler) series(ctx, running context.Context, what, name string, pause time.Duration) error {
	for i := 0; running.Err() == nil; i++ {
		if err := p.fetch(ctx, what, fmt.Sprintf("%s-%03d", name, i)); err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-running.Done():
			timer.Stop()
		}
	}
	return nil
}

// snapshot saves what memory is used for.
func (p *profiler) snapshot(ctx context.Context, when string) error {
	if p == nil {
		return nil
	}
	return errors.Join(p.fetch(ctx, "heap", "heap-"+when), p.fetch(ctx, "goroutine", "goroutine-"+when))
}

func (p *profiler) fetch(ctx context.Context, what, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("fetching profile %s: %w", name, err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("fetching profile %s: %w", name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching profile %s: %s", name, response.Status)
	}
	return os.WriteFile(filepath.Join(p.dir, p.prefix+"-"+name+".pprof"), raw, 0o600)
}
