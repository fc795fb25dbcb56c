package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// add sums up, and compares with the first.
func (s *Scopes) add(scoped *Scoped) {
	for kind, received := range scoped.Start {
		if everywhere(kind) {
			scoped.Everywhere = scoped.Everywhere.plus(received)
			continue
		}
		scoped.InScope = scoped.InScope.plus(received)
		scoped.Changed = scoped.Changed.plus(scoped.Changes[kind])
	}
	s.Instances = append(s.Instances, scoped)
	whole := s.Instances[0]
	scoped.Ratios.Objects = by(float64(scoped.InScope.Objects), float64(whole.InScope.Objects))
	scoped.Ratios.Bytes = by(float64(scoped.InScope.Bytes), float64(whole.InScope.Bytes))
	scoped.Ratios.Changed = by(float64(scoped.Changed.Bytes), float64(whole.Changed.Bytes))
	scoped.Ratios.CPU = by(scoped.CPUSeconds, whole.CPUSeconds)
	scoped.Ratios.PeakAnonMiB = by(scoped.PeakAnonMiB, whole.PeakAnonMiB)
}

// kinds returns the kinds that any of the instances received, limited ones or not.
func (s *Scopes) kinds(limited bool) []string {
	kinds := map[string]bool{}
	for _, scoped := range s.Instances {
		for kind := range scoped.Start {
			if everywhere(kind) != limited {
				kinds[kind] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

func (s *Scopes) table(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\nStarted anew with everything imported, for %d of %d namespaces with %d of %d clusters: what the API server sends until nothing comes any more\n",
		s.Namespaces, s.AllNamespaces, s.Clusters, s.AllClusters)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "\t", s.Instances[0].Name, "\t")
	for _, scoped := range s.Instances[1:] {
		_, _ = fmt.Fprintf(w, "\t%s\t\tratio\t", scoped.Name)
	}
	_, _ = fmt.Fprint(w, "\n\tobjects\tKiB", strings.Repeat("\tobjects\tKiB\tobjects\tKiB", len(s.Instances)-1), "\n")
	for _, limited := range []bool{true, false} {
		for _, kind := range s.kinds(limited) {
			s.row(w, kind, false, func(scoped *Scoped) Received { return scoped.Start[kind] })
		}
		if limited {
			s.row(w, "LIMITED BY THE SCOPE", false, func(scoped *Scoped) Received { return scoped.InScope })
		} else {
			s.row(w, "FROM EVERYWHERE", false, func(scoped *Scoped) Received { return scoped.Everywhere })
		}
	}
	s.row(w, "ALL", false, func(scoped *Scoped) Received { return scoped.InScope.plus(scoped.Everywhere) })
	s.row(w, "later, events of changes", true, func(scoped *Scoped) Received { return scoped.Changed })
	_ = w.Flush()
	for _, scoped := range s.Instances {
		_, _ = fmt.Fprintf(out, "%s: peak RSS %.0f MiB, allocated at most %.1f MiB (%.2f), CPU %.2f s (%.2f)\n",
			scoped.Name, scoped.PeakMiB, scoped.PeakAnonMiB, scoped.Ratios.PeakAnonMiB, scoped.CPUSeconds, scoped.Ratios.CPU)
		if scoped.Stray > 0 {
			_, _ = fmt.Fprintf(out, "%s: %d events that were changes came during the start, so it was not on an idle stage\n", scoped.Name, scoped.Stray)
		}
	}
}

// row compares one kind: its objects, or the events about it.
func (s *Scopes) row(out io.Writer, name string, events bool, of func(*Scoped) Received) {
	const kib = 1024
	count := func(scoped *Scoped) int {
		if events {
			return of(scoped).Events
		}
		return of(scoped).Objects
	}
	whole := s.Instances[0]
	_, _ = fmt.Fprintf(out, "%s\t%d\t%.1f", name, count(whole), float64(of(whole).Bytes)/kib)
	for _, scoped := range s.Instances[1:] {
		_, _ = fmt.Fprintf(out, "\t%d\t%.1f\t%.2f\t%.2f", count(scoped), float64(of(scoped).Bytes)/kib,
			by(float64(count(scoped)), float64(count(whole))), by(float64(of(scoped).Bytes), float64(of(whole).Bytes)))
	}
	_, _ = fmt.Fprintln(out)
}
