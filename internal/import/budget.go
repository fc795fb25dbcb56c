package importer

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// lookPause is the pause between two looks at what waits, of those that were not looked at before, and of the others.
	lookPause = time.Second
	// lookMany is how many may wait for a turn before the pause grows with them.
	lookMany = 1000
	// lookLatest is when whoever waits for a turn comes again at the latest: others may have gone meanwhile.
	lookLatest = 5 * time.Minute
	// lookSweep is how long one may be late before its turn goes to others.
	lookSweep = time.Minute
	// lookLate is how long those behind it stand in line for one that is late.
	lookLate = 2 * time.Second
)

// budget bounds how many looks a second this process makes at what waits for Rancher: two, and fewer when more than a
// thousand wait for one. A slow Rancher makes all of them wait. Each look costs requests to its API server, and finds
// nothing.
//
// Those that were not looked at before have half of it to themselves: where thousands never connect, a new cluster that
// does not is looked at soon all the same. Within each half namespaces take turns, and whoever has come first in a
// namespace is looked at first there. When it is whose turn is an estimate, so those whose time has come stand in line.
//
// It keeps no timer: whoever is not looked at is told when to come again.
type budget struct {
	mu           sync.Mutex
	first, again lane
}

// lane is one half.
type lane struct {
	// free is when the next look may be made, and swept when those were last dropped that did not come again.
	free, swept time.Time
	turns       map[types.NamespacedName]turn
	// of counts turns by namespace.
	of map[string]int
	// line are those whose time has come, in the order in which they came then.
	line []types.NamespacedName
}

// turn is that of a cluster.
type turn struct {
	// at is when it is its turn, and back when it was told to come again.
	at, back time.Time
}

func newLane() lane { return lane{turns: map[types.NamespacedName]turn{}, of: map[string]int{}} }

func newBudget() *budget { return &budget{first: newLane(), again: newLane()} }

// wait returns when to come again for a look at a cluster, zero if it is to be made now.
func (b *budget) wait(key types.NamespacedName, looked bool, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	half := &b.first
	if looked {
		half = &b.again
	}
	waiting := len(b.first.turns) + len(b.again.turns)
	return half.wait(key, lookPause*time.Duration(max(lookMany, waiting))/lookMany, now)
}

func (l *lane) wait(key types.NamespacedName, pause time.Duration, now time.Time) time.Duration {
	l.sweep(now)
	mine, came := l.turns[key]
	// Some of those before it may have gone since it came.
	if at := l.free.Add(time.Duration(l.before(key.Namespace, came)) * pause); !came || at.Before(mine.at) {
		mine.at = at
	}
	left := max(mine.at.Sub(now), l.free.Sub(now))
	if !now.Before(mine.at) {
		left = max(0, l.free.Sub(now)) + time.Duration(l.ahead(key, now))*pause
	}
	if left <= 0 {
		l.forget(key)
		l.free = now.Add(pause)
		return 0
	}
	left = min(left, lookLatest)
	mine.back = now.Add(left)
	if l.turns[key] = mine; !came {
		l.of[key.Namespace]++
	}
	return left
}

// ahead returns how many stand in line before a cluster, which joins it if it does not stand there. Namespaces take
// turns in it.
func (l *lane) ahead(key types.NamespacedName, now time.Time) int {
	l.line = slices.DeleteFunc(l.line, func(other types.NamespacedName) bool {
		turn, waits := l.turns[other]
		return other != key && (!waits || now.Sub(turn.back) > lookLate)
	})
	at := slices.Index(l.line, key)
	if at < 0 {
		at = len(l.line)
		l.line = append(l.line, key)
	}
	round := 0 // of the namespace, in which it is its turn
	for _, other := range l.line[:at] {
		if other.Namespace == key.Namespace {
			round++
		}
	}
	ahead, rounds := 0, map[string]int{}
	for i, other := range l.line {
		if its := rounds[other.Namespace]; its < round || its == round && i < at {
			ahead++
		}
		rounds[other.Namespace]++
	}
	return ahead
}

// before returns how many turns come before the last one of a namespace, or before one more.
func (l *lane) before(namespace string, came bool) int {
	own := l.of[namespace]
	if came {
		own--
	}
	before := own
	for other, turns := range l.of {
		if other != namespace {
			before += min(turns, own+1)
		}
	}
	return before
}

// sweep drops those that did not come again: an import that was paused, or that something else holds up, asks for no
// look, and must hold up nobody.
func (l *lane) sweep(now time.Time) {
	if now.Sub(l.swept) < lookSweep {
		return
	}
	l.swept = now
	for key, turn := range l.turns {
		if now.Sub(turn.back) > lookSweep {
			l.forget(key)
		}
	}
}

func (l *lane) forget(key types.NamespacedName) {
	l.line = slices.DeleteFunc(l.line, func(other types.NamespacedName) bool { return other == key })
	if _, came := l.turns[key]; !came {
		return
	}
	delete(l.turns, key)
	if l.of[key.Namespace]--; l.of[key.Namespace] == 0 {
		delete(l.of, key.Namespace)
	}
}

// forget drops a cluster that waits no more.
func (b *budget) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first.forget(key)
	b.again.forget(key)
}
