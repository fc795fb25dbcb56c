package main

import (
	"fmt"
	"io"
	"strings"
)

// markdown writes the runs as one table, a column for each.
func (r *report) markdown(out io.Writer) {
	if len(r.Runs) == 0 {
		return
	}
	row := func(name string, cell func(*Run) string) {
		cells := make([]string, len(r.Runs))
		for i, run := range r.Runs {
			cells[i] = cell(run)
		}
		_, _ = fmt.Fprintf(out, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
	_, _ = fmt.Fprintln(out)
	row("", func(run *Run) string {
		if run.Floor {
			return fmt.Sprintf("%d, the cheapest importer", run.Clusters)
		}
		return fmt.Sprintf("%d as %s", run.Clusters, run.Strategy)
	})
	_, _ = fmt.Fprintf(out, "|%s\n", strings.Repeat("---|", len(r.Runs)+1))
	row("Secrets of CAPI clusters", func(run *Run) string { return fmt.Sprint(run.Clusters * (clusterSecrets + run.Machines)) })
	row("all records created", func(run *Run) string { return fmt.Sprintf("%.1f s", run.RecordsSeconds) })
	row("all agents applied", func(run *Run) string { return fmt.Sprintf("%.1f s", run.AppliedSeconds) })
	row("all imported", func(run *Run) string { return fmt.Sprintf("%.1f s", run.ImportedSeconds) })
	row("time for a cluster, until its agent is applied", func(run *Run) string {
		return fmt.Sprintf("%.1f ms", 1000*run.AppliedSeconds/float64(run.Clusters))
	})
	row("CPU time of the manager for a cluster", func(run *Run) string {
		return fmt.Sprintf("%.1f ms", 1000*run.Processes["archelon"].CPUSeconds/float64(run.Clusters))
	})
	row("management requests for an import", func(run *Run) string { return fmt.Sprintf("%.1f", run.Management.PerImport) })
	row("workload requests for an import", func(run *Run) string { return fmt.Sprintf("%.1f", run.Workload.PerImport) })
	row("downloads for an import", func(run *Run) string { return fmt.Sprintf("%.2f", run.Downloads.PerImport) })
	row("peak memory of the manager", func(run *Run) string { return fmt.Sprintf("%.0f MiB", run.PeakMiB) })
	row("of it allocated, and pages of the program", func(run *Run) string {
		return fmt.Sprintf("%.0f, %.0f MiB", run.PeakAnonMiB, run.PeakFileMiB)
	})
	row("requests when idle", func(run *Run) string {
		return fmt.Sprintf("%d in %.0f s", run.Idle.Management.Total+run.Idle.Workload.Total, run.Idle.Seconds)
	})
	anew := func(cell func(*Anew) string) func(*Run) string {
		return func(run *Run) string {
			if run.Anew == nil {
				return "not measured"
			}
			return cell(run.Anew)
		}
	}
	row("started anew: ready, and done with looking", anew(func(a *Anew) string { return fmt.Sprintf("%.1f s, %.1f s", a.ReadySeconds, a.CalmSeconds) }))
	row("CPU time until then", anew(func(a *Anew) string { return fmt.Sprintf("%.1f s", a.CPUSeconds) }))
	row("writes until then", anew(func(a *Anew) string { return fmt.Sprint(a.Start.Writes) }))
	row("peak memory", anew(func(a *Anew) string { return fmt.Sprintf("%.0f MiB", a.PeakMiB) }))
	row("CPU time for a minute when settled", anew(func(a *Anew) string { return fmt.Sprintf("%.2f s", 60*by(a.Settled.CPUSeconds, a.Settled.Seconds)) }))
	row("writes when settled", anew(func(a *Anew) string { return fmt.Sprintf("%d in %.0f s", a.Settled.Writes, a.Settled.Seconds) }))
	row("CPU time used by other programs", func(run *Run) string { return fmt.Sprintf("%.0f %%", 100*run.OthersCPUShare) })
	if g := r.Growth; g != nil {
		_, _ = fmt.Fprintf(out, "\nA cluster among %d takes %.2f times the time and %.2f times the CPU time of one among %d.\n", g.Clusters, g.Time, g.CPU, g.Baseline)
	}
}
