package identity

import (
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
)

// want says which targets an identity needs. What it does not need any more is forgotten, and what is due is asked. It
// returns when the next one will be due, zero for never.
func (c *Checker) want(identity types.NamespacedName, targets map[target]asker) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.wanted[identity], map[target]bool{}
	for to := range before {
		if _, ok := targets[to]; ok {
			continue
		}
		users := c.targets[to].users
		if delete(users, identity); len(users) == 0 {
			c.forget(to)
		}
	}
	after := time.Duration(0)
	for to, by := range targets {
		is := c.remember(to)
		if is == nil {
			continue
		}
		is.by, is.users[identity], now[to] = by, true, true
		after = sooner(after, c.dueIn(to, is))
	}
	if c.wanted[identity] = now; len(now) == 0 {
		delete(c.wanted, identity)
	}
	return after
}

// remember returns what is remembered of a target, nil if there are too many with its Secret.
func (c *Checker) remember(to target) *asked {
	is, ok := c.targets[to]
	switch {
	case ok:
		return is
	case c.count[to.secret] >= maxTargets:
		return nil
	}
	is = &asked{users: map[types.NamespacedName]bool{}}
	c.targets[to] = is
	c.count[to.secret]++
	return is
}

// dueIn returns when a target is to be asked again. What is due waits for its turn, and has no time.
func (c *Checker) dueIn(to target, is *asked) time.Duration {
	now := c.Clock.Now()
	due := is.at.Add(is.lasts).Sub(now)
	if is.waiting || due > 0 {
		return max(due, 0)
	}
	is.waiting, is.since = true, now
	c.queue = append(c.queue, to)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return 0
}

func (c *Checker) forget(to target) {
	delete(c.targets, to)
	if c.count[to.secret]--; c.count[to.secret] == 0 {
		delete(c.count, to.secret)
		maps.DeleteFunc(c.down, func(key downKey, _ time.Time) bool { return key.secret == to.secret })
	}
}

// finding returns what is known of a target.
func (c *Checker) finding(to target) finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := c.targets[to]
	switch {
	case ok && is.finding != finding{}:
		return is.finding
	case !ok && c.count[to.secret] >= maxTargets:
		return unknown(infrav1.TooManyCompartmentsReason, "Clusters with the same Secret name more compartments than OCI is asked about. "+
			"Use fewer compartments, or more identities")
	default:
		return finding{pending, infrav1.VerificationPendingReason, "Archelon asks OCI whether the principal of this Cluster works"}
	}
}

// take takes the first question that is still wanted.
func (c *Checker) take() (target, asked, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		to := c.queue[0]
		c.queue = c.queue[1:]
		if is, ok := c.targets[to]; ok && is.waiting {
			return to, *is, true
		}
	}
	return target{}, asked{}, false
}

// note remembers a finding, and returns the identities that it is about. An outage takes nothing away and gives
// nothing: what OCI said before still holds. Its text differs each time, and is written once.
func (c *Checker) note(to target, found finding) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := c.targets[to]
	if !ok {
		return nil
	}
	is.waiting, is.at = false, c.Clock.Now()
	lasts, outage := acceptedFor, found.reason == infrav1.OCIUnreachableReason || found.reason == infrav1.VerificationPendingReason
	switch {
	case found.result == "":
		lasts = 0
	case outage:
		lasts = unreachableFor
	case found.result == rejected:
		lasts = rejectedFor
	}
	is.lasts = lasts + rand.N(lasts/4+1) //nolint:gosec // it spreads questions, and protects nothing
	late := is.finding.reason == infrav1.VerificationPendingReason && found.reason == infrav1.OCIUnreachableReason
	if found.result != "" && (!outage || late || is.finding.result == "") {
		is.finding = found
	}
	users := make([]types.NamespacedName, 0, len(is.users))
	for user := range is.users {
		users = append(users, user)
	}
	return users
}
