package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/archelon-io/archelon/test/stage"
)

// floorIn builds the cheapest importer under the name by which its use of the machine is found.
func floorIn(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "archelon")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./test/bench/floor")
	build.Dir = stage.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the cheapest importer: %w\n%s", err, out)
	}
	return path, nil
}

// limit compares the manager with the cheapest importer, by the medians of the runs of each.
type limit struct {
	Floor figures `json:"floor"`
	Ours  figures `json:"ours"`
}

// figures are what is compared.
type figures struct {
	RecordsSeconds float64 `json:"recordsSeconds"`
	AppliedSeconds float64 `json:"appliedSeconds"`
	// Management and Workload are requests for an import.
	Management float64 `json:"managementRequests"`
	Workload   float64 `json:"workloadRequests"`
	// CPUSeconds are those of the importer, and PlaneSeconds those of the API server and etcd.
	CPUSeconds   float64 `json:"cpuSeconds"`
	PlaneSeconds float64 `json:"controlPlaneCPUSeconds"`
	PeakMiB      float64 `json:"peakMiB"`
}

// limitOf returns nil without runs of both.
func limitOf(runs []*Run) *limit {
	var floor, ours []*Run
	for _, run := range runs {
		if run.Floor {
			floor = append(floor, run)
		} else {
			ours = append(ours, run)
		}
	}
	if len(floor) == 0 || len(ours) == 0 {
		return nil
	}
	return &limit{Floor: mediansOf(floor), Ours: mediansOf(ours)}
}

func mediansOf(runs []*Run) figures {
	median := func(of func(*Run) float64) float64 {
		values := make([]float64, 0, len(runs))
		for _, run := range runs {
			values = append(values, of(run))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		RecordsSeconds: median(func(r *Run) float64 { return r.RecordsSeconds }),
		AppliedSeconds: median(func(r *Run) float64 { return r.AppliedSeconds }),
		Management:     median(func(r *Run) float64 { return r.Management.PerImport }),
		Workload:       median(func(r *Run) float64 { return r.Workload.PerImport }),
		CPUSeconds:     median(func(r *Run) float64 { return r.Processes["archelon"].CPUSeconds }),
		PlaneSeconds: median(func(r *Run) float64 {
			return r.Processes["kube-apiserver"].CPUSeconds + r.Processes["etcd"].CPUSeconds
		}),
		PeakMiB: median(func(r *Run) float64 { return r.Processes["archelon"].PeakMiB }),
	}
}

// table writes the comparison for people.
func (l *limit) table(out io.Writer) {
	if l == nil {
		return
	}
	_, _ = fmt.Fprintln(out, "\nBeside the cheapest importer that there can be, medians of the runs of each")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tcheapest\tmanager\tratio")
	for _, row := range []struct {
		name        string
		floor, ours float64
	}{
		{"all records created, s", l.Floor.RecordsSeconds, l.Ours.RecordsSeconds},
		{"all agents applied, s", l.Floor.AppliedSeconds, l.Ours.AppliedSeconds},
		{"management requests per import", l.Floor.Management, l.Ours.Management},
		{"workload requests per import", l.Floor.Workload, l.Ours.Workload},
		{"CPU of the importer, s", l.Floor.CPUSeconds, l.Ours.CPUSeconds},
		{"CPU of API server and etcd, s", l.Floor.PlaneSeconds, l.Ours.PlaneSeconds},
		{"peak memory of the importer, MiB", l.Floor.PeakMiB, l.Ours.PeakMiB},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\n", row.name, row.floor, row.ours, by(row.ours, row.floor))
	}
	_ = w.Flush()
}
