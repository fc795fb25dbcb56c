package importer

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// An agent with the credentials of others may be replaced replacementBurst times at once, and
// then once in replacementPause.
const (
	replacementBurst = 5
	replacementPause = 5 * time.Minute
)

// replacements counts how often the agent of others was replaced in a workload cluster. It outlives a connection: who
// fights for an agent gets a connection each time.
type replacements struct {
	mu       sync.Mutex
	limiters map[types.NamespacedName]*rate.Limiter
}

func newReplacements() *replacements {
	return &replacements{limiters: map[types.NamespacedName]*rate.Limiter{}}
}

// check returns a Problem when the agent was replaced too often to do it again now.
func (r *replacements) check(key types.NamespacedName, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.limiters[key]
	if limiter == nil || limiter.TokensAt(now) >= 1 {
		return nil
	}
	return &outcome.Problem{
		Kind: outcome.KindPoll, Reason: archelonv1.AgentContestedReason, After: time.Minute,
		Message: "Rancher's agent was replaced several times in a short time, because another controller installs its own agent each time. " +
			"Find in the managedFields of Deployment cattle-system/cattle-cluster-agent in the workload cluster which one it is, and stop it. " +
			"Archelon tries again every 5 minutes",
	}
}

// note counts one more.
func (r *replacements) note(key types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.limiters[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(replacementPause), replacementBurst)
		r.limiters[key] = limiter
	}
	limiter.AllowN(now, 1)
}

// forget drops a cluster that is gone.
func (r *replacements) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.limiters, key)
}

// contests knows which imports wait because the agent in their workload cluster is that of another
// v3 Cluster, by that cluster.
type contests struct {
	mu      sync.Mutex
	owner   map[types.NamespacedName]string
	waiting map[string][]types.NamespacedName
}

func newContests() *contests {
	return &contests{owner: map[types.NamespacedName]string{}, waiting: map[string][]types.NamespacedName{}}
}

// note remembers whose agent was found.
func (c *contests) note(key types.NamespacedName, found verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if found.standing != agentOfCluster {
		return
	}
	c.owner[key] = found.from
	c.waiting[found.from] = append(c.waiting[found.from], key)
}

// of returns the imports that wait for a v3 Cluster.
func (c *contests) of(cluster string) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waiting[cluster])
}

// forget drops a cluster that does not wait any more.
func (c *contests) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// remove takes a cluster out. The lock is held.
func (c *contests) remove(key types.NamespacedName) {
	owner, ok := c.owner[key]
	if !ok {
		return
	}
	delete(c.owner, key)
	if left := slices.DeleteFunc(c.waiting[owner], func(k types.NamespacedName) bool { return k == key }); len(left) > 0 {
		c.waiting[owner] = left
	} else {
		delete(c.waiting, owner)
	}
}

// warnings remembers in which workload clusters the API server warned of Pod Security when the agent was installed.
type warnings struct {
	mu   sync.Mutex
	keys map[types.NamespacedName]bool
}

func newWarnings() *warnings { return &warnings{keys: map[types.NamespacedName]bool{}} }

// note remembers what the last installation met.
func (w *warnings) note(key types.NamespacedName, warned bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
	if warned {
		w.keys[key] = true
	}
}

// of reports whether the last installation met a warning.
func (w *warnings) of(key types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[key]
}

// forget drops a cluster that is gone.
func (w *warnings) forget(key types.NamespacedName) { w.note(key, false) }
