package capi

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// judge says whether all of a cluster works that controllers were started for.
func (m *member) judge() {
	_, e := m.cluster()
	if e == nil {
		return
	}
	got := m.look(e)
	switch {
	case m.grace.given():
		state := m.without(Connecting)
		if m.worked {
			state = Degraded
		}
		m.become(state, RotationFailingReason, m.grace.message())
	case got.nothing():
		reason, message := named(got.wrong)
		m.become(m.without(Connecting), reason, message)
	case len(got.wrong) > 0:
		e.complete, m.worked = true, true
		reason, message := named(got.wrong)
		m.become(Degraded, reason, message)
	case len(got.waiting) > 0 && !e.complete:
		m.become(m.without(Connecting), SyncingReason, "the first objects are being received: "+strings.Join(got.waiting, ", "))
	default:
		e.complete, m.worked = true, true
		m.become(Engaged, EngagedReason, "")
	}
}

// looked is what there is to say of the kinds that controllers receive from a cluster: what is wrong with some, which
// are being received, and how many were.
type looked struct {
	wrong   map[string]string
	waiting []string
	synced  int
}

// nothing reports whether the cluster sends nothing of what is asked for, although it answers probes.
func (l looked) nothing() bool {
	for _, reason := range l.wrong {
		if reason != KindTimeoutReason {
			return false
		}
	}
	return len(l.wrong) > 0 && l.synced == 0
}

// look looks at the kinds. It says when to look again.
func (m *member) look(e *engagement) looked {
	m.lateAfter = time.Time{}
	got := looked{wrong: m.line.troubles()}
	var unsynced map[string]time.Time
	unsynced, got.synced = e.cluster.cache.unsynced()
	connected := m.line.connectedSince()
	for kind, since := range unsynced {
		if got.wrong[kind] != "" {
			continue
		}
		if since.Before(connected) {
			since = connected
		}
		late := since.Add(m.provider.opts.Timing.Sync)
		if !time.Now().Before(late) {
			got.wrong[kind] = KindTimeoutReason
			continue
		}
		got.waiting = append(got.waiting, kind)
		if m.lateAfter.IsZero() || late.Before(m.lateAfter) {
			m.lateAfter = late
		}
	}
	slices.Sort(got.waiting)
	return got
}

// named says what is wrong with which kinds.
func named(wrong map[string]string) (reason, message string) {
	kinds := slices.Sorted(maps.Keys(wrong))
	reason = wrong[kinds[0]]
	texts := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		if wrong[kind] == ForbiddenReason {
			reason = ForbiddenReason // It is what a person can change.
		}
		texts = append(texts, kind+" ("+wrong[kind]+")")
	}
	return reason, "kinds that cannot be received from the cluster: " + strings.Join(texts, ", ")
}
