package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	// poll is how often is looked for what has no event.
	poll = 100 * time.Millisecond
	// logTail is how much of the manager's log a failure shows, in bytes.
	logTail = 4 << 10
)

// bench builds the manager and makes the runs. It returns what was measured also when a later
// run fails, nil for nothing.
func bench(ctx context.Context, o *options, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "archelon-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := managerIn(ctx, dir, o.Manager, progress)
	if err != nil {
		return nil, err
	}
	cheapest := ""
	if o.Floor {
		if cheapest, err = floorIn(ctx, filepath.Join(dir, "floor")); err != nil {
			return nil, err
		}
	}
	var result *report
	for range o.Runs {
		for _, r := range runsOf(o) {
			r.binary, r.progress = binary, progress
			if r.floor {
				r.binary = cheapest
			}
			measured, err := r.do(ctx)
			if err != nil {
				return result, err
			}
			if result == nil {
				result = newReport(o)
			}
			result.add(measured)
		}
	}
	return result, nil
}

// runsOf returns what is to be run for one repetition.
func runsOf(o *options) []*run {
	of := func(o *options, variant map[int]bool) *run {
		dead := deadOnes(o.Clusters, o.BlackHoles)
		return &run{options: o, members: append(crowdOf(o, variant), loners(o)...), compared: crowdOf(o, dead)}
	}
	full := of(o, deadOnes(o.Clusters, o.BlackHoles))
	if o.Floor {
		first := of(o, nil)
		first.floor = true
		return []*run{first, full}
	}
	if o.Compare {
		// The run without black holes measures the same clusters that stay healthy in the other.
		return []*run{of(o, nil), full}
	}
	if less := o.baseline(); less != nil {
		return []*run{of(less, deadOnes(less.Clusters, less.BlackHoles)), full}
	}
	return []*run{full}
}

// managerIn returns the manager under the name by which its use of the machine is found.
func managerIn(ctx context.Context, dir, built string, progress io.Writer) (string, error) {
	if built == "" {
		_, _ = fmt.Fprintln(progress, "building the manager")
		return stage.BuildManager(ctx, dir, false)
	}
	built, err := filepath.Abs(built)
	if err != nil {
		return "", err
	}
	// A wrong path is better found before everything else is started.
	if built, err = exec.LookPath(built); err != nil {
		return "", fmt.Errorf("looking for the manager: %w", err)
	}
	link := filepath.Join(dir, "archelon")
	return link, os.Symlink(built, link)
}

// run is one benchmark from an empty management cluster on.
type run struct {
	options  *options
	binary   string
	progress io.Writer
	members  []member
	// compared tells by its dead members which clusters' latencies do not count.
	compared []member
	// floor: it is the cheapest importer that is run.
	floor bool

	stage    *stage.Stage
	rancher  side
	servers  *workloadserver.Server
	manager  *stage.Manager
	recorder *recorder
	profiler *profiler
	memory   *memory
	result   *Run
	// began and ready are of the last start of the manager.
	began, ready time.Time
}

// do measures, and stops everything however it ends.
func (r *run) do(ctx context.Context) (*Run, error) {
	r.recorder = newRecorder(r.members)
	r.result = &Run{
		Strategy: r.options.Strategy, Rancher: r.options.Rancher, Clusters: len(crowdIn(r.members)), Machines: r.options.Machines,
		AgentDelaySeconds: r.options.AgentDelay.Seconds(), Load: loadAverage(), Floor: r.floor,
	}
	for _, m := range r.members {
		if m.dead {
			r.result.BlackHoles++
		}
	}
	r.say("starting a management cluster and %d workload clusters, %d of them black holes", r.result.Clusters, r.result.BlackHoles)
	err := r.measure(ctx)
	if err != nil && r.manager != nil {
		logs := r.manager.Logs()
		_, _ = fmt.Fprintf(r.progress, "the last lines of the manager's log:\n%s\n", logs[max(0, len(logs)-logTail):])
	}
	if err = errors.Join(err, r.stop()); err != nil {
		return nil, err
	}
	return r.result, nil
}

func (r *run) say(format string, args ...any) { _, _ = fmt.Fprintf(r.progress, format+"\n", args...) }

func (r *run) stop() error {
	var errs []error
	if r.memory != nil {
		r.memory.stop()
	}
	if r.manager != nil {
		errs = append(errs, r.manager.Stop())
	}
	if r.servers != nil {
		errs = append(errs, r.servers.Stop())
	}
	if r.rancher != nil {
		r.rancher.stop()
		errs = append(errs, r.rancher.err())
	}
	if r.stage != nil {
		errs = append(errs, r.stage.Stop())
	}
	return errors.Join(errs...)
}

func (r *run) measure(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	unfollow, err := r.recorder.follow(ctx, r.stage, r.options.Strategy)
	if err != nil {
		return err
	}
	defer unfollow()
	if err := r.wave(ctx); err != nil {
		return err
	}
	var t times
	t.over = time.Now()
	if r.floor {
		return r.evaluate(t) // There is no more to it.
	}
	if err := r.importAlone(ctx); err != nil {
		return err
	}
	t.idle = time.Now()
	if err := r.beIdle(ctx); err != nil {
		return err
	}
	if err := r.startAnew(ctx, &t); err != nil {
		return err
	}
	if err := r.evaluate(t); err != nil {
		return err
	}
	return r.compareScopes(ctx)
}

// wave imports the crowd, and the newcomer if there is one.
func (r *run) wave(ctx context.Context) error {
	before, err := measure()
	if err != nil {
		return err
	}
	profiled := r.profiler.follow(ctx)
	if err := r.chooseAll(ctx, crowdIn(r.members)); err != nil {
		return err
	}
	r.say("labelled; importing")
	if err := r.join(ctx); err != nil {
		return err
	}
	finished := r.recorder.finished
	if r.floor {
		finished = r.recorder.allApplied
	}
	if err := r.await(ctx, finished); err != nil {
		return err
	}
	after, err := measure()
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	r.result.Processes, r.result.OthersCPUShare = after.since(before)
	if err := r.quiet(ctx); err != nil {
		return err
	}
	return r.profiler.snapshot(ctx, "after")
}

func (r *run) beIdle(ctx context.Context) error {
	r.say("imported; watching the idle manager for %s", r.options.Idle)
	before, err := measure()
	if err != nil {
		return err
	}
	if err := r.pause(ctx, r.options.Idle); err != nil {
		return err
	}
	after, err := measure()
	if err != nil {
		return err
	}
	idle, _ := after.since(before)
	r.result.Idle.CPUSeconds = idle["archelon"].CPUSeconds
	peaks := r.memory.soFar()
	r.result.PeakMiB, r.result.PeakAnonMiB, r.result.PeakFileMiB = peaks.Peak, peaks.Anon, peaks.File
	return nil
}

// prepare brings up everything but the choice to import.
func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.servers, err = workloadserver.StartAt(ctx, workloadserver.Options{Distance: r.options.Distance}, r.recorder.request); err != nil {
		return err
	}
	if r.stage, r.rancher, err = startManagement(ctx, r.options); err != nil {
		return err
	}
	r.recorder.installed = r.rancher.installed
	began := time.Now()
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.result.SetupSeconds = time.Since(began).Seconds()
	r.say("set up within %.0f s; starting the manager", r.result.SetupSeconds)
	if r.profiler, err = newProfiler(r.options.Profiles, r.options.Strategy); err != nil {
		return err
	}
	return r.start(ctx)
}

// loadAverage is that of the last minute, zero where the kernel does not tell.
func loadAverage() float64 {
	var load float64
	raw, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(strings.TrimSpace(string(raw)), &load)
	}
	return load
}
