package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/archelon-io/archelon/test/env"
)

// maxHubRatio is how much longer the same clusters may take when they are in many management clusters.
const maxHubRatio = 1.2

// hubResult is what one run of the hub has shown.
type hubResult struct {
	hubSize

	// applied is the time from the first label to the last agent.
	applied time.Duration
	cpu     float64
	others  float64
	// readyMiB and engagedMiB are what the manager has allocated before the first management cluster is registered, and
	// when all are received and nothing is imported yet; settledMiB when all is imported.
	readyMiB, engagedMiB, settledMiB float64
	peak                             resident
	// records are the Rancher clusters that were created.
	records int
	// idle is how long nothing was to be done, and writes and reads the requests in this time, to all API servers,
	// without watches and the Lease.
	idle          time.Duration
	writes, reads []string
}

// total is how many clusters were imported.
func (r *hubResult) total() int { return r.sites * r.clusters }

// evaluate reads the audit logs.
func (h *hubRun) evaluate(begin, from, to time.Time) error {
	h.result.idle, h.result.settledMiB = to.Sub(from), residentOf(h.memory.pid).Anon
	events, err := h.stage.Management.AuditEvents()
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != managerUser })
	for _, e := range events {
		if e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Resource == "clusters" && e.ResponseStatus != nil && e.ResponseStatus.Code < 300 && within(e, begin, to) {
			h.result.records++
		}
	}
	for _, plane := range h.planes() {
		if plane != h.stage.Management {
			if events, err = plane.AuditEvents(); err != nil {
				return err
			}
		}
		for _, e := range events {
			switch {
			case unrelated(e) || !within(e, from, to):
			case changes(e):
				h.result.writes = append(h.result.writes, e.Verb+" "+e.RequestURI)
			default:
				h.result.reads = append(h.result.reads, e.Verb+" "+e.RequestURI)
			}
		}
	}
	return h.rancher.err()
}

// planes are the control planes that answer, that of Rancher first.
func (h *hubRun) planes() []*env.ControlPlane {
	planes := []*env.ControlPlane{h.stage.Management}
	for _, site := range h.sites {
		planes = append(planes, site.stage.Management)
	}
	return planes
}

// hubReport runs the benchmark, prints it, and judges it.
func hubReport(ctx context.Context, o *options, out, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "archelon-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	many, one, err := hubs(ctx, o, dir, progress)
	if err != nil {
		return err
	}
	return checkHub(many, one, out)
}

// checkHub prints what was measured, and returns errBounds unless all holds that is promised.
func checkHub(many, one *hubResult, out io.Writer) error {
	_, _ = fmt.Fprintln(out, "| | one management cluster | many |\n|---|---|---|")
	row := func(name string, of func(*hubResult) string) {
		_, _ = fmt.Fprintf(out, "| %s | %s | %s |\n", name, of(one), of(many))
	}
	row("management clusters that answer, and black holes", func(r *hubResult) string { return fmt.Sprintf("%d, %d", r.sites, r.holes) })
	row("CAPI clusters, all together", func(r *hubResult) string { return fmt.Sprint(r.total()) })
	row("all agents applied", func(r *hubResult) string { return fmt.Sprintf("%.1f s", r.applied.Seconds()) })
	row("CPU time of the hub for a cluster", func(r *hubResult) string { return fmt.Sprintf("%.1f ms", 1000*r.cpu/float64(r.total())) })
	row("peak memory of the hub", func(r *hubResult) string { return fmt.Sprintf("%.0f MiB", r.peak.Peak) })
	row("allocated: before, engaged, settled", func(r *hubResult) string {
		return fmt.Sprintf("%.0f, %.0f, %.0f MiB", r.readyMiB, r.engagedMiB, r.settledMiB)
	})
	row("writes, and reads but watches, when settled", func(r *hubResult) string {
		return fmt.Sprintf("%d, %d in %.0f s", len(r.writes), len(r.reads), r.idle.Seconds())
	})
	row("used by others", func(r *hubResult) string { return fmt.Sprintf("%.0f %%", 100*r.others) })
	ratio := many.applied.Seconds() / one.applied.Seconds()
	each := (many.peak.Anon - one.peak.Anon) / float64(many.sites+many.holes-one.sites)
	_, _ = fmt.Fprintf(out, "\nTime, many by one: %.2f. Memory for each further management cluster: %.1f MiB of the peak, %.1f MiB when engaged.\n",
		ratio, each, (many.engagedMiB-one.engagedMiB)/float64(many.sites+many.holes-one.sites))
	var broken []error
	if ratio > maxHubRatio && many.others < calmMachine && one.others < calmMachine {
		broken = append(broken, fmt.Errorf("the time is %.2f of that with one, %.1f at most", ratio, maxHubRatio))
	}
	for _, r := range []*hubResult{many, one} {
		if r.records != r.total() {
			broken = append(broken, fmt.Errorf("%d records were created for %d clusters", r.records, r.total()))
		}
		if len(r.writes)+len(r.reads) > 0 {
			broken = append(broken, fmt.Errorf("requests when settled: %v %v", r.writes, r.reads))
		}
	}
	if err := errors.Join(broken...); err != nil {
		return fmt.Errorf("%w: %w", errBounds, err)
	}
	return nil
}
