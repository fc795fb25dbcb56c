package importer

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// registrationPatience is how long Rancher may take to fill in the registration of a new cluster
// before it is asked to look again.
const registrationPatience = 30 * time.Second

const (
	// patienceFew is how many may wait at the same time without counting as a backlog: each is looked at when its time
	// has come.
	patienceFew = 10
	// patienceFactor times what it takes at present is how long one may wait while others come through.
	patienceFactor = 3
	// patienceEach is what Rancher needs for each that waits, about. As long as none has come through, the first look at
	// one in a backlog comes later by so much.
	patienceEach = 100 * time.Millisecond
	// patienceMax is when what waits is no part of a backlog any more, but a problem of its own.
	patienceMax = 5 * time.Minute
	// patienceWeight is the part of a new observation in what it takes at present: 1/patienceWeight.
	patienceWeight = 4
)

// patience decides whether it is worth while to look at what has waited for long, when many wait for the same thing:
// agents for their connection, new Rancher clusters for their registration. A slow Rancher makes all of them wait, and
// a look at each would find nothing and make it slower. So a look waits while others come through and this one has not
// waited for much longer than they did, and what is due then shares a budget. Where few wait, it has no say.
//
// It keeps no timer: it is asked when a look is due. All of it takes the same time, however many wait.
type patience struct {
	// base is how long anything may wait.
	base time.Duration
	// budget is that of all looks of this process.
	budget *budget

	mu sync.Mutex
	// young is what has begun to wait lately, the oldest first; what has waited for too long is no backlog but a
	// problem of its own.
	young  *list.List // of types.NamespacedName
	places map[types.NamespacedName]*list.Element
	since  map[types.NamespacedName]time.Time
	// looked are those of them that were looked at.
	looked map[types.NamespacedName]bool
	// takes is the smoothed time that it takes at present, zero as long as nothing has come through.
	takes time.Duration
	// last is when something came through.
	last time.Time
}

func newPatience(base time.Duration) *patience { //nolint:unparam // agents and registrations have a base each, and those are equal by chance
	return &patience{
		base: base, budget: newBudget(), young: list.New(), places: map[types.NamespacedName]*list.Element{},
		since: map[types.NamespacedName]time.Time{}, looked: map[types.NamespacedName]bool{},
	}
}

// begin notes since when a cluster waits, unless that is known.
func (p *patience) begin(key types.NamespacedName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.since[key]; waits {
		return
	}
	p.since[key] = at
	p.places[key] = p.young.PushBack(key)
}

// arrive notes that what the cluster waited for has come. It costs nothing for one that did not wait.
func (p *patience) arrive(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, waited := p.since[key]
	if !waited {
		return
	}
	p.drop(key)
	p.last = now
	took := min(max(0, now.Sub(since)), patienceMax) // A problem that lasted is no measure.
	if p.takes == 0 {
		p.takes = took
	}
	p.takes += (took - p.takes) / patienceWeight
}

// forget drops a cluster that waits no more.
func (p *patience) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(key)
}

// postpone returns for how much longer a look that is due can wait, zero if it is to be done now.
func (p *patience) postpone(key types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age(now)
	since, waits := p.since[key]
	if !waits {
		return 0
	}
	left := time.Duration(0)
	if len(p.since) > patienceFew {
		left = p.queue(key, now.Sub(since), now)
	}
	if left == 0 {
		p.budget.forget(key)
	}
	return left
}

// looks notes that a cluster was looked at, and not only given what it is to wait with.
func (p *patience) looks(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked[key] = true
}

// queue is postpone where many wait. The lock is held.
func (p *patience) queue(key types.NamespacedName, waited time.Duration, now time.Time) time.Duration {
	if young := p.young.Len(); young > patienceFew {
		may := patienceFactor * p.takes
		if moving := now.Sub(p.last) <= max(p.base, p.takes); !moving {
			may = min(p.base+time.Duration(young)*patienceEach, patienceMax)
		}
		if left := may - waited; left > 0 {
			p.budget.forget(key)
			return left
		}
	}
	return p.budget.wait(key, p.looked[key], now)
}

// drop forgets a cluster. The lock is held.
func (p *patience) drop(key types.NamespacedName) {
	if place := p.places[key]; place != nil {
		p.young.Remove(place)
		delete(p.places, key)
	}
	delete(p.since, key)
	delete(p.looked, key)
	p.budget.forget(key)
}

// age has those count no more as a backlog that have waited for longer than it takes. The lock is held.
func (p *patience) age(now time.Time) {
	limit := max(patienceMax, patienceFactor*p.takes)
	for place := p.young.Front(); place != nil; place = p.young.Front() {
		key, _ := place.Value.(types.NamespacedName)
		if now.Sub(p.since[key]) < limit {
			return
		}
		p.young.Remove(place)
		delete(p.places, key)
	}
}
