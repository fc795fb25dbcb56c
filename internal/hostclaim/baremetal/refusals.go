package baremetal

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/archelon-io/archelon/internal/hostclaim"
)

// refusedEvent is the reason of an Event on a host that fits a claim and is not open to its namespace.
const refusedEvent = "HostClaimRefused"

// refusalPause is how long such an Event is not repeated: an API server keeps Events for an hour.
const refusalPause = time.Hour

// refusalsTold remembers which refusals were reported a short time ago, so that a tenant with many claims does not fill
// the namespace of the hosts with Events. The zero value is ready for use.
type refusalsTold struct {
	mu   sync.Mutex
	last map[refusal]time.Time
}

// refusal is what one namespace refuses to another one.
type refusal struct{ hosts, requester, by string }

// due reports whether a refusal is to be reported now.
func (t *refusalsTold) due(of hostclaim.Refusal, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := refusal{of.Host.Namespace, of.Requester, of.By}
	if last, ok := t.last[key]; ok && now.Sub(last) < refusalPause {
		return false
	}
	maps.DeleteFunc(t.last, func(_ refusal, last time.Time) bool { return now.Sub(last) >= refusalPause })
	if t.last == nil {
		t.last = map[refusal]time.Time{}
	}
	t.last[key] = now
	return true
}

// report tells those who administer hosts why claims do not get them. Tenants are not told, or they would learn the
// labels of hosts that are not open to them.
func (r *Reconciler) report(refusals []hostclaim.Refusal) {
	now := r.Clock.Now()
	for _, one := range refusals {
		if r.told.due(one, now) {
			// Events that differ in their notes alone are counted as one.
			r.Recorder.Eventf(one.Host, one.Claim, corev1.EventTypeWarning, refusedEvent, "Refuse by "+one.By, "%s", hostclaim.Bounded(one.Note))
		}
	}
}
