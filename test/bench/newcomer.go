package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// The lone clusters and, by the same names, their namespaces.
const (
	newcomerName = "newcomer"
	aloneName    = "alone"
)

// newcomerShare is the part of the crowd that has its records when the newcomer is selected: late enough for the whole
// crowd to be in the queue, early enough for most of it to be there still.
const newcomerShare = 0.05

// loners returns the clusters beside the crowd: one that is selected when the crowd is being imported, and one for
// which nobody else is in the way.
func loners(o *options) []member {
	if !o.Newcomer {
		return nil
	}
	return []member{
		{name: newcomerName, namespace: newcomerName, lone: true},
		{name: aloneName, namespace: aloneName, lone: true},
	}
}

// join selects the newcomer in mid-wave.
func (r *run) join(ctx context.Context) error {
	if !r.options.Newcomer {
		return nil
	}
	enough := max(1, int(newcomerShare*float64(r.result.Clusters)))
	if err := r.await(ctx, func() bool { return r.recorder.crowdBefore(r.recorder.recorded, time.Now()) >= enough }); err != nil {
		return err
	}
	return r.chooseLone(ctx, newcomerName)
}

// importAlone imports the other lone cluster while nothing else is to be done.
func (r *run) importAlone(ctx context.Context) error {
	if !r.options.Newcomer {
		return nil
	}
	r.say("imported; importing one more alone")
	if err := r.chooseLone(ctx, aloneName); err != nil {
		return err
	}
	if err := r.await(ctx, r.recorder.finished); err != nil {
		return err
	}
	return r.quiet(ctx)
}

func (r *run) chooseLone(ctx context.Context, name string) error {
	return choose(ctx, r.stage, []member{{name: name, namespace: name}}, r.recorder)
}

// Newcomer shows how fair the manager is: how one cluster in a namespace of its own fares beside a crowd in others.
type Newcomer struct {
	// LabelledSeconds is when it was selected, after the crowd, and CrowdRecords how many of the crowd had a record then.
	LabelledSeconds float64 `json:"labelledSeconds"`
	CrowdRecords    int     `json:"crowdRecordsBefore"`

	Recorded Turn `json:"record"`
	Applied  Turn `json:"applied"`
	Imported Turn `json:"imported"`
}

// Turn compares one latency in seconds, counted from the label of each cluster's own namespace.
type Turn struct {
	Newcomer float64 `json:"newcomerSeconds"`
	Alone    float64 `json:"aloneSeconds"`
	CrowdP50 float64 `json:"crowdP50Seconds"`
	CrowdP99 float64 `json:"crowdP99Seconds"`
	// ByCrowd and ByAlone are the newcomer's latency divided by the crowd's median and by that of the cluster alone.
	ByCrowd float64 `json:"newcomerByCrowdP50"`
	ByAlone float64 `json:"newcomerByAlone"`
	// Before is how many of the crowd got there before the newcomer. It depends less on the machine than times.
	Before int `json:"crowdBefore"`
}

func (r *run) compareNewcomer() *Newcomer {
	at := r.recorder.chosenAt(newcomerName)
	return &Newcomer{
		LabelledSeconds: at.Sub(r.recorder.begin()).Seconds(),
		CrowdRecords:    r.recorder.crowdBefore(r.recorder.recorded, at),
		Recorded:        r.turn(r.recorder.recorded, r.result.Recorded),
		Applied:         r.turn(r.recorder.applied, r.result.Applied),
		Imported:        r.turn(r.recorder.connected, r.result.Imported),
	}
}

func (r *run) turn(moments map[string]time.Time, crowd Latency) Turn {
	newcomer, at := r.recorder.latency(moments, newcomerName)
	alone, _ := r.recorder.latency(moments, aloneName)
	return Turn{
		Newcomer: newcomer.Seconds(), Alone: alone.Seconds(), CrowdP50: crowd.P50, CrowdP99: crowd.P99,
		ByCrowd: by(newcomer.Seconds(), crowd.P50), ByAlone: by(newcomer.Seconds(), alone.Seconds()),
		Before: r.recorder.crowdBefore(moments, at),
	}
}

func (n *Newcomer) table(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\nA newcomer in another namespace, labelled %.2f s after the crowd, of which %d had records; the same alone afterwards\n",
		n.LabelledSeconds, n.CrowdRecords)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tnewcomer\talone\tcrowd p50\tcrowd p99\tnewcomer/crowd p50\tnewcomer/alone\tof the crowd before it")
	for _, row := range []struct {
		name string
		Turn
	}{{"label to record", n.Recorded}, {"label to agent applied", n.Applied}, {"label to imported", n.Imported}} {
		_, _ = fmt.Fprintf(w, "%s\t%.2f s\t%.2f s\t%.2f s\t%.2f s\t%.2f\t%.2f\t%d\n",
			row.name, row.Newcomer, row.Alone, row.CrowdP50, row.CrowdP99, row.ByCrowd, row.ByAlone, row.Before)
	}
	_ = w.Flush()
}
