package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/archelon-io/archelon/test/stage"
)

// fleet runs the benchmark of the provider of workload clusters, which is beside its code and judges itself, and prints
// as a table what it measured.
func fleet(ctx context.Context, out, progress io.Writer) error {
	_, _ = fmt.Fprintln(progress, "Compiling the benchmark, and engaging 1,000 clusters")
	command := exec.CommandContext(ctx, "go", "-C", "providers/capi", "test", "-run=^$", "-bench=^BenchmarkFleet$", "-benchtime=1x", "-timeout=30m", ".")
	command.Dir, command.Stderr = stage.Root(), progress
	// It has processes of its own, which end with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	raw, err := command.Output()
	rows := benchmarked(string(raw))
	if ctx.Err() != nil || len(rows) == 0 {
		return errors.Join(err, fmt.Errorf("the benchmark did not end: %s", raw))
	}
	_, _ = fmt.Fprintln(out, "\nThe fleet: 1,000 clusters, of them 50 black holes, 50 that forbid everything and 50 that refuse the credentials")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", row.unit, row.value)
	}
	_ = w.Flush()
	if err != nil {
		return fmt.Errorf("%w:\n%s", errBounds, raw)
	}
	return nil
}

// figure is one of those that a benchmark of Go reports.
type figure struct{ value, unit string }

// benchmarked returns the figures of the only benchmark in the output of go test, but for the time that it took.
func benchmarked(output string) []figure {
	var found []figure
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "Benchmark") || len(fields) < 4 {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i+1] != "ns/op" {
				found = append(found, figure{fields[i], fields[i+1]})
			}
		}
	}
	return found
}
