package importer

import (
	"time"
)

// rule is a part of the rules that decides, or passes.
type rule struct {
	name   string
	decide func(*deciding) Decision
}

// rulesOf lists the rules of an intent in their order: this is the table of what the import does.
func rulesOf(i intent) []rule {
	switch i {
	case intentNothing:
		return []rule{{"nothing", (*deciding).nothing}}
	case intentOrphans:
		return []rule{{"orphans", (*deciding).releaseOrphans}}
	case intentLeave:
		return []rule{
			{"let", (*deciding).letOthers},
			{"leave", (*deciding).leaveBehind},
			{"removal", (*deciding).observeRemoval},
			{"permission", (*deciding).checkPermission},
		}
	case intentPause:
		return []rule{{"pause", (*deciding).pause}}
	case intentDelete, intentUnimport:
		return []rule{
			{"take-over", (*deciding).takeOver},
			{"delete-rancher-clusters", (*deciding).deleteRancherClusters},
			{"release-cluster", (*deciding).releaseCluster},
		}
	case intentImport:
		return []rule{
			{"take-over", (*deciding).takeOver},
			{"removal", (*deciding).observeRemoval},
			{"selection", (*deciding).checkSelection},
			{"permission", (*deciding).checkPermission},
			{"kind", (*deciding).findKind},
			{"turtles", (*deciding).checkTurtles},
			{"principal", (*deciding).checkPrincipal},
			{"adopt", (*deciding).adopt},
			{"neighbours", (*deciding).checkNeighbours},
			{"control-plane", (*deciding).waitForControlPlane},
			{"namesake", (*deciding).checkNamesake},
			{"claim", (*deciding).claim},
			{"derived", (*deciding).waitForDerived},
			{"rancher-cluster", (*deciding).ensureRecord},
			{"sync", (*deciding).syncRecord},
			{"management", (*deciding).findManagement},
			{"display-name", (*deciding).checkDisplayName},
			{"sync-management", (*deciding).syncManagement},
			{"early", (*deciding).keepOffBefore},
			{"agent", (*deciding).connectAgent},
		}
	default:
		return []rule{
			{"removal", (*deciding).observeRemoval},
			{"selection", (*deciding).checkSelection},
		}
	}
}

// Decide says how a run goes on that knows the observation. It is pure: what it needs to know in addition, it asks for.
// The intent is that of the first decision, whatever the run has changed since.
func (r Rules) Decide(o Observation, now time.Time) Decision {
	d := &deciding{Rules: r, Observation: &o, now: now}
	if o.intent == intentUnknown {
		o.intent = d.intend()
	}
	return d.by(rulesOf(o.intent))
}

// by applies rules: the first that does not pass decides. A rule that passes for the time being says when to look
// again.
func (d *deciding) by(rules []rule) Decision {
	var end Decision
	for _, rule := range rules {
		found := rule.decide(d)
		if !found.passes() {
			end, end.Phase = found, rule.name
			break
		}
		if after := found.Outcome.After; after > 0 && (end.Outcome.After == 0 || after < end.Outcome.After) {
			end.Outcome = found.Outcome
		}
	}
	end.Intent, end.findings = d.intent, d.findings
	return end
}

// decider is Decide, or a part of it.
type decider func(o Observation, now time.Time) Decision
