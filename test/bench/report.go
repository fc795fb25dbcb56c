package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report is the result of the benchmark.
type report struct {
	Began   time.Time `json:"began"`
	CPUs    int       `json:"cpus"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	Options *options  `json:"options"`
	Runs    []*Run    `json:"runs"`
	// Ratios are there with --compare.
	Ratios *ratios `json:"ratios,omitempty"`
	// Growth is there with a run of --baseline.
	Growth *Growth `json:"growth,omitempty"`
	// Limit is there with --floor.
	Limit *limit `json:"limit,omitempty"`
}

// ratios compare the latencies of the same healthy clusters, with black holes by without: in that run of each kind
// during which others used the least of the machine.
type ratios struct {
	Applied  Latency `json:"appliedLatency"`
	Imported Latency `json:"importedLatency"`
}

func newReport(o *options) *report {
	return &report{Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Options: o}
}

func (r *report) add(measured *Run) {
	r.Runs = append(r.Runs, measured)
	r.Growth, r.Limit = growthOf(r.Runs), limitOf(r.Runs)
	var with, without []*Run
	for _, run := range r.Runs {
		if run.BlackHoles > 0 {
			with = append(with, run)
		} else {
			without = append(without, run)
		}
	}
	if !r.Options.Compare || len(with) == 0 || len(without) == 0 {
		return
	}
	r.Ratios = &ratios{
		Applied:  ratioOf(with, without, func(run *Run) Latency { return run.Applied }),
		Imported: ratioOf(with, without, func(run *Run) Latency { return run.Imported }),
	}
}

// ratioOf compares the runs of each kind that others disturbed least.
func ratioOf(with, without []*Run, of func(*Run) Latency) Latency {
	calmest := func(runs []*Run) Latency {
		return of(slices.MinFunc(runs, func(a, b *Run) int { return cmp.Compare(a.OthersCPUShare, b.OthersCPUShare) }))
	}
	a, b := calmest(with), calmest(without)
	return Latency{P50: by(a.P50, b.P50), P95: by(a.P95, b.P95), P99: by(a.P99, b.P99), Max: by(a.Max, b.Max)}
}

// by divides; nothing measured gives no ratio.
func by(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *report) writeJSON(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// tables writes the results for people.
func (r *report) tables(out io.Writer) {
	for _, run := range r.Runs {
		run.table(out)
	}
	r.Limit.table(out)
	if r.Ratios == nil {
		return
	}
	_, _ = fmt.Fprintln(out, "\nHealthy clusters, latencies with black holes / without (1.00 is no difference)")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tp50\tp95\tp99")
	for _, row := range []struct {
		name string
		Latency
	}{{"label to agent applied", r.Ratios.Applied}, {"label to imported", r.Ratios.Imported}} {
		_, _ = fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\n", row.name, row.P50, row.P95, row.P99)
	}
	_ = w.Flush()
}

// table writes one run.
func (r *Run) table(out io.Writer) {
	if r.Floor {
		_, _ = fmt.Fprint(out, "\nThe cheapest importer:")
	}
	_, _ = fmt.Fprintf(out, "\n%d clusters as %s, %d black holes, Rancher: %s; load average before %.1f, %.0f %% of the CPU time used by others\n",
		r.Clusters, r.Strategy, r.BlackHoles, r.Rancher, r.Load, 100*r.OthersCPUShare)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("set up", "%.0f s, with %d Secrets of each cluster", r.SetupSeconds, clusterSecrets+r.Machines)
	row("all records created", "%.2f s", r.RecordsSeconds)
	row("all agents applied", "%.2f s", r.AppliedSeconds)
	row("all imported", "%.2f s", r.ImportedSeconds)
	row("label to record", "%s", r.Recorded)
	row("label to agent applied", "%s", r.Applied)
	row("label to imported", "%s", r.Imported)
	row("management requests per import", "%.2f", r.Management.PerImport)
	r.Management.list(w, r.imports())
	row("workload requests per import", "%.2f", r.Workload.PerImport)
	r.Workload.list(w, r.imports()-r.BlackHoles)
	row("downloads per import", "%.2f", r.Downloads.PerImport)
	row("manager, CPU during imports", "%.2f s, %.1f ms per cluster", r.Processes["archelon"].CPUSeconds, 1000*r.Processes["archelon"].CPUSeconds/float64(r.Clusters))
	row("manager, peak RSS", "%.0f MiB; allocated at most %.0f MiB, pages of files %.0f MiB", r.PeakMiB, r.PeakAnonMiB, r.PeakFileMiB)
	for _, name := range slices.Sorted(maps.Keys(r.Processes)) {
		if name != "archelon" {
			row("  "+name, "%.2f s, %.0f MiB", r.Processes[name].CPUSeconds, r.Processes[name].PeakMiB)
		}
	}
	row("idle, observed", "%.0f s", r.Idle.Seconds)
	row("idle, management requests per minute", "%.2f, of them %.2f writes", r.Idle.RequestsPerMinute, r.Idle.WritesPerMinute)
	r.Idle.Management.list(w, 0)
	row("idle, workload requests and downloads", "%d, %d", r.Idle.Workload.Total, r.Idle.Downloads)
	row("idle, manager's CPU", "%.2f s", r.Idle.CPUSeconds)
	if a := r.Anew; a != nil {
		row("started anew, ready and calm", "%.2f s, %.2f s", a.ReadySeconds, a.CalmSeconds)
		row("started anew, CPU until calm", "%.2f s", a.CPUSeconds)
		row("started anew, management requests until calm", "%d, of them %d writes", a.Start.Management.Total, a.Start.Writes)
		a.Start.Management.list(w, 0)
		row("started anew, peak RSS", "%.0f MiB; allocated at most %.0f MiB", a.PeakMiB, a.PeakAnonMiB)
		row("settled, observed", "%.0f s", a.Settled.Seconds)
		row("settled, management requests", "%d, of them %d writes", a.Settled.Management.Total, a.Settled.Writes)
		a.Settled.Management.list(w, 0)
		row("settled, manager's CPU", "%.2f s", a.Settled.CPUSeconds)
	}
	_ = w.Flush()
	if r.Newcomer != nil {
		r.Newcomer.table(out)
	}
	if r.Scopes != nil {
		r.Scopes.table(out)
	}
}

// list writes the requests by name: for each import, or in total if imports is zero.
func (c Counts) list(out io.Writer, imports int) {
	for _, name := range slices.Sorted(maps.Keys(c.ByResource)) {
		if imports > 0 {
			_, _ = fmt.Fprintf(out, "  %s\t%.2f\n", name, float64(c.ByResource[name])/float64(imports))
		} else {
			_, _ = fmt.Fprintf(out, "  %s\t%d\n", name, c.ByResource[name])
		}
	}
}

// String implements fmt.Stringer.
func (l Latency) String() string {
	return fmt.Sprintf("p50 %.2f s, p95 %.2f s, p99 %.2f s, max %.2f s", l.P50, l.P95, l.P99, l.Max)
}
