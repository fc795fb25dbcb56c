package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

const (
	// hostileMemory is what the manager may take in memory, in MiB, whatever tenants write.
	hostileMemory = 150
	// hostileClusters is how many ordinary clusters are imported beside hostile tenants.
	hostileClusters = 50
	// hostileLimit is the memory limit of the container that the chart has by default, in bytes. The
	// manager is told of it as in a Pod.
	hostileLimit = "536870912"
	// calmPace is between two imports when nobody attacks.
	calmPace = time.Second
)

// errHostile is that of a manager which tenants have harmed.
var errHostile = errors.New("tenants have harmed others")

// soaked is what was measured of ordinary imports.
type soaked struct {
	name     string
	imported int
	latency  Latency
	peak     float64
}

// soak imports clusters one after the other, without and with tenants that write what costs others as much as they can.
func soak(ctx context.Context, o *options, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "archelon-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := managerIn(ctx, dir, o.Manager, progress)
	if err != nil {
		return err
	}
	if err := os.Setenv("ARCHELON_MEMORY_LIMIT", hostileLimit); err != nil {
		return err
	}
	calm := *o
	calm.Namespaces = calm.Clusters // each is labelled by itself
	attacked := calm
	calm.Hostile = 0 // The first run is without the attack.
	var results []soaked
	for _, variant := range []*options{&calm, &attacked} {
		r := &run{options: variant, binary: binary, progress: progress, members: crowdOf(variant, nil), compared: crowdOf(variant, nil)}
		result, err := r.soak(ctx)
		if result.name != "" {
			results = append(results, result)
		}
		if err != nil {
			soakTable(out, results)
			return err
		}
	}
	soakTable(out, results)
	return checkSoak(results[1], attacked.Clusters)
}

// soak imports all clusters with the same time between them.
func (r *run) soak(ctx context.Context) (result soaked, err error) {
	r.recorder = newRecorder(r.members)
	r.result = &Run{Strategy: r.options.Strategy, Rancher: r.options.Rancher, Clusters: len(r.members)}
	r.say("starting a management cluster and %d workload clusters", len(r.members))
	defer func() {
		if err != nil && r.manager != nil {
			logs := r.manager.Logs()
			r.say("the last lines of the manager's log:\n%s", logs[max(0, len(logs)-logTail):])
		}
		err = errors.Join(err, r.stop())
	}()
	if err := r.prepare(ctx); err != nil {
		return result, err
	}
	result.name = "without"
	pace := calmPace
	if r.options.Hostile > 0 {
		result.name, pace = "with", r.options.Hostile/time.Duration(len(r.members))
		var end func() error
		if end, result.peak, err = r.attack(ctx); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	unfollow, err := r.recorder.follow(ctx, r.stage, r.options.Strategy)
	if err != nil {
		return result, err
	}
	defer unfollow()
	r.say("importing %d clusters, one every %s", len(r.members), pace.Round(time.Millisecond))
	for _, m := range r.members {
		if err := choose(ctx, r.stage, []member{m}, r.recorder); err != nil {
			return result, err
		}
		if err := r.pause(ctx, pace); err != nil {
			return result, err
		}
	}
	waited := r.await(ctx, r.recorder.finished)
	each, _ := r.recorder.latencies(r.recorder.connected, func(member) bool { return true })
	result.imported, result.latency = len(each), latencyOf(each)
	result.peak = max(result.peak, r.memory.soFar().Peak)
	return result, waited
}

// attack writes what hostile tenants write, starts the manager anew with all of it, and has it change until the
// returned function is called. It returns the highest memory of the manager until then.
func (r *run) attack(ctx context.Context) (end func() error, peak float64, err error) {
	a := &attack{client: r.stage.Client}
	r.say("writing %d hostile Secrets, %d hostile environments and %d made-up Leases", hostileSecrets, hostileEnvs, hostileLeases)
	if err := a.begin(ctx); err != nil {
		return nil, 0, fmt.Errorf("attacking: %w", err)
	}
	peak = r.memory.soFar().Peak
	if err := r.restart(ctx); err != nil {
		return nil, peak, err
	}
	return a.goOn(ctx), peak, nil
}

// checkSoak fails if ordinary imports or the memory suffer.
func checkSoak(result soaked, clusters int) error {
	var problems []error
	if result.imported != clusters {
		problems = append(problems, fmt.Errorf("%d of %d clusters were imported", result.imported, clusters))
	}
	if result.peak > hostileMemory {
		problems = append(problems, fmt.Errorf("the manager took %.0f MiB, more than %d", result.peak, hostileMemory))
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.Join(append([]error{errHostile}, problems...)...)
}

func soakTable(out io.Writer, results []soaked) {
	_, _ = fmt.Fprintln(out, "\nOrdinary imports, from the label to the condition, without and with hostile tenants")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "attack\timported\tp50\tp99\tlongest\tpeak memory of the manager")
	for _, r := range results {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.2f s\t%.2f s\t%.2f s\t%.0f MiB\n", r.name, r.imported, r.latency.P50, r.latency.P99, r.latency.Max, r.peak)
	}
	_ = w.Flush()
}
