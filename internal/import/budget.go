package importer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// lookPause is the pause between two looks at what waits, of those that were not looked at before, and of the others.
	lookPause = time.Second
	// lookMany is how many may wait before the pause grows with them.
	lookMany = 1000
	// lookLatest is when whoever waits for a turn comes again at the latest: others may have gone meanwhile.
	lookLatest = 5 * time.Minute
)

// budget bounds how many looks a second this process makes at what waits for Rancher: two, and fewer when more than a
// thousand wait. A slow Rancher makes all of them wait. Each look costs requests to its API server, and finds nothing.
//
// Those that were not looked at before have half of it to themselves: where thousands never connect, a new cluster that
// does not is looked at soon all the same. Within each half whoever has come first is looked at first.
//
// It keeps no timer: whoever is not looked at is told when to come again.
type budget struct {
	mu           sync.Mutex
	first, again lane
}

// lane is one half.
type lane struct {
	// free is when the next look may be made.
	free time.Time
	// turns is when each that has come may come again.
	turns map[types.NamespacedName]time.Time
}

func newBudget() *budget {
	return &budget{first: lane{turns: map[types.NamespacedName]time.Time{}}, again: lane{turns: map[types.NamespacedName]time.Time{}}}
}

// wait returns when to come again for a look at a cluster, zero if it is to be made now. So many wait for the same.
func (b *budget) wait(key types.NamespacedName, looked bool, waiting int, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	half := &b.first
	if looked {
		half = &b.again
	}
	return half.wait(key, lookPause*time.Duration(max(lookMany, waiting))/lookMany, now)
}

func (l *lane) wait(key types.NamespacedName, pause time.Duration, now time.Time) time.Duration {
	at, came := l.turns[key]
	before := len(l.turns)
	if came {
		before--
	}
	// Some of those before it may have gone since it came.
	if turn := l.free.Add(time.Duration(before) * pause); !came || turn.Before(at) {
		at = turn
	}
	if now.Before(at) || now.Before(l.free) {
		l.turns[key] = at
		return min(max(at.Sub(now), l.free.Sub(now)), lookLatest)
	}
	delete(l.turns, key)
	l.free = now.Add(pause)
	return 0
}

// forget drops a cluster that waits no more.
func (b *budget) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.first.turns, key)
	delete(b.again.turns, key)
}
