package main

import (
	"errors"
	"fmt"
	"io"
)

// errBounds is there when something that docs/development/performance.md promises was not so.
var errBounds = errors.New("a bound that performance.md promises does not hold")

// calmMachine is the share of the machine that others may use for times to be compared.
const calmMachine = 0.1

// bound is one promise. Times are none, because they depend on the machine; counts, memory and ratios are.
type bound struct {
	name           string
	measured, most float64
}

func (b bound) holds() bool { return b.measured <= b.most }

// String implements fmt.Stringer.
func (b bound) String() string {
	verdict := "holds"
	if !b.holds() {
		verdict = "BROKEN"
	}
	return fmt.Sprintf("%s: %s, %.4g of at most %.4g", verdict, b.name, b.measured, b.most)
}

// peakBound is what the manager may take in MiB.
func peakBound(clusters int) float64 {
	switch {
	case clusters <= 300:
		return 100
	case clusters <= 1000:
		return 150
	default:
		return 400
	}
}

// requestBound is how many management requests an import may take, a few for all of them included. For one of v1 the v3
// Cluster is patched, too. Where agents are slow, some are looked at meanwhile. Among many, a wait may last for half a
// minute, and is written then.
func (r *Run) requestBound() float64 {
	most := 7 + 2/float64(max(1, r.Clusters))
	if r.Clusters > 300 {
		most++
	}
	if r.Strategy == "v1" {
		most++
	}
	if r.AgentDelaySeconds > 10 {
		most++
	}
	return most
}

// bounds returns what is promised of a run. Of one with black holes or a newcomer, and of one in which the stand-in
// takes the machine, nothing is.
func (r *Run) bounds(profiled bool) []bound {
	if r.Floor || r.BlackHoles > 0 || r.Newcomer != nil || r.Rancher != rancherLight {
		return nil
	}
	of := func(name string) string { return fmt.Sprintf("%d clusters: %s", r.Clusters, name) }
	bounds := []bound{
		{of("management requests per import"), r.Management.PerImport, r.requestBound()},
		{of("workload requests per import"), r.Workload.PerImport, 14},
		{of("downloads per import"), r.Downloads.PerImport, 1},
		{of("management requests when idle"), float64(r.Idle.Management.Total), 0},
		{of("workload requests when idle"), float64(r.Idle.Workload.Total), 0},
	}
	if r.Anew != nil {
		bounds = append(bounds,
			bound{of("writes of a manager that starts anew"), float64(r.Anew.Start.Writes), 0},
			bound{of("writes when it has settled"), float64(r.Anew.Settled.Writes), 0},
			bound{of("workload requests after a start anew"), float64(r.Anew.Start.Workload.Total + r.Anew.Settled.Workload.Total), 0},
		)
	}
	if !profiled {
		bounds = append(bounds, bound{of("peak RSS in MiB"), r.peak(), peakBound(r.Clusters)})
	}
	return bounds
}

// peak is the manager's highest resident set size in MiB, of both its starts.
func (r *Run) peak() float64 {
	if r.Anew == nil {
		return r.PeakMiB
	}
	return max(r.PeakMiB, r.Anew.PeakMiB)
}

// Growth compares the largest run with that of --baseline: what a cluster takes among many by what it takes among
// fewer.
type Growth struct {
	Clusters int `json:"clusters"`
	Baseline int `json:"baseline"`
	// Time is that until all agents are applied, and CPU the manager's.
	Time float64 `json:"timePerCluster"`
	CPU  float64 `json:"cpuPerCluster"`
	// Calm says that others left the machine alone in both, so that Time means something.
	Calm bool `json:"calm"`
}

// growthOf returns nil for runs of one size.
func growthOf(runs []*Run) *Growth {
	few, many := runs[0], runs[0]
	for _, run := range runs {
		if run.Clusters < few.Clusters {
			few = run
		}
		if run.Clusters > many.Clusters {
			many = run
		}
	}
	if few.Clusters == many.Clusters {
		return nil
	}
	each := func(run *Run, total float64) float64 { return total / float64(run.Clusters) }
	return &Growth{
		Clusters: many.Clusters, Baseline: few.Clusters,
		Time: by(each(many, many.AppliedSeconds), each(few, few.AppliedSeconds)),
		CPU:  by(each(many, many.Processes["archelon"].CPUSeconds), each(few, few.Processes["archelon"].CPUSeconds)),
		Calm: max(many.OthersCPUShare, few.OthersCPUShare) <= calmMachine,
	}
}

func (g *Growth) bounds() []bound {
	if g == nil {
		return nil
	}
	const most = 1.3
	of := func(name string) string {
		return fmt.Sprintf("%s of a cluster, %d by %d", name, g.Clusters, g.Baseline)
	}
	bounds := []bound{{of("CPU time"), g.CPU, most}}
	if g.Calm {
		bounds = append(bounds, bound{of("time"), g.Time, most})
	}
	return bounds
}

// check writes whether the promises hold, and returns errBounds unless all do.
func (r *report) check(out io.Writer) error {
	bounds := r.Growth.bounds()
	for _, run := range r.Runs {
		bounds = append(bounds, run.bounds(r.Options.Profiles != "")...)
	}
	var err error
	if len(bounds) > 0 {
		_, _ = fmt.Fprintln(out)
	}
	for _, b := range bounds {
		_, _ = fmt.Fprintln(out, b)
		if !b.holds() {
			err = errBounds
		}
	}
	return err
}
