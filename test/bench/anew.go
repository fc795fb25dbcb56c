package main

import (
	"context"
	"fmt"
	"time"

	managers "github.com/archelon-io/archelon/internal/options"
)

const (
	// calmLook is how long the manager's use of the machine is measured at a time, and calmShare what part of one
	// processor is no work.
	calmLook  = time.Second
	calmShare = 0.05
)

// Anew is a start of the manager that finds everything imported.
type Anew struct {
	// ReadySeconds and CalmSeconds are from the start of the program until it is ready, and until it has nothing to do
	// any more.
	ReadySeconds float64 `json:"readySeconds"`
	CalmSeconds  float64 `json:"calmSeconds"`
	// CPUSeconds is what it used until then.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the highest resident set size until the end.
	PeakMiB     float64 `json:"peakMiB"`
	PeakAnonMiB float64 `json:"peakAnonMiB"`
	// Start is what was asked for until the manager was calm, and Settled what came after it.
	Start   Idle `json:"start"`
	Settled Idle `json:"settled"`
}

// startAnew ends the manager, starts it with its default for resyncs, and watches it when it has settled.
func (r *run) startAnew(ctx context.Context, t *times) error {
	t.idled = time.Now()
	t.anew, t.calm, t.end = t.idled, t.idled, t.idled
	if !r.options.Restart {
		return nil
	}
	defaults, err := managers.New()
	if err != nil {
		return err
	}
	r.say("starting the manager anew, with everything imported")
	if err := r.end(); err != nil {
		return err
	}
	if err := r.launch(ctx, "--sync-period="+defaults.SyncPeriod.String()); err != nil {
		return err
	}
	t.anew = r.began
	anew := &Anew{ReadySeconds: r.ready.Sub(r.began).Seconds()}
	if t.calm, err = r.calm(ctx); err != nil {
		return err
	}
	anew.CalmSeconds = t.calm.Sub(r.began).Seconds()
	before, err := measure()
	if err != nil {
		return err
	}
	anew.CPUSeconds = before.processes["archelon"].CPUSeconds
	r.say("ready after %.1f s, calm after %.1f s; watching the settled manager for %s", anew.ReadySeconds, anew.CalmSeconds, r.options.Idle)
	if err := r.pause(ctx, r.options.Idle); err != nil {
		return err
	}
	after, err := measure()
	if err != nil {
		return err
	}
	t.end = time.Now()
	spent, _ := after.since(before)
	anew.Settled.CPUSeconds = spent["archelon"].CPUSeconds
	peaks := r.memory.soFar()
	anew.PeakMiB, anew.PeakAnonMiB = peaks.Peak, peaks.Anon
	r.result.Anew = anew
	return r.profiler.snapshot(ctx, "anew")
}

// calm waits until the manager has had nothing to do for a while, and returns since when.
func (r *run) calm(ctx context.Context) (time.Time, error) {
	timed, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	since := r.ready
	for time.Since(since) < r.options.Settle {
		before, err := measure()
		if err != nil {
			return since, err
		}
		from := time.Now()
		if err := r.pause(timed, calmLook); err != nil {
			return since, fmt.Errorf("waiting for the manager to have nothing to do: %w", err)
		}
		after, err := measure()
		if err != nil {
			return since, err
		}
		spent, _ := after.since(before)
		if spent["archelon"].CPUSeconds > calmShare*time.Since(from).Seconds() {
			since = time.Now()
		}
	}
	return since, nil
}
