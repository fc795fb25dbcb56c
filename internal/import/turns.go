package importer

import (
	"container/list"
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// turnsBacklog is how many clusters can be woken before the controller has taken them into its queue.
const turnsBacklog = 1024

// turns limits how many clusters change over to another kind of Rancher cluster at the same time. A cluster keeps its
// slot until it has come back, so that a mistake, or a Rancher that connects nothing, costs as many clusters as there
// are slots and no more. Those that wait are woken in the order in which they came, when a slot is free; they cost
// nothing meanwhile.
//
// Which clusters hold a slot is written on them. What is kept here is a copy, so that no slot is given twice: it is
// rebuilt before the first is given.
type turns struct {
	most int
	// come wakes clusters whose turn has come.
	come chan event.GenericEvent

	rebuilding sync.Mutex // one at a time

	mu      sync.Mutex
	rebuilt bool
	taken   map[types.NamespacedName]bool
	queue   *list.List // of types.NamespacedName
	places  map[types.NamespacedName]*list.Element
}

func newTurns(most, backlog int) *turns {
	return &turns{
		most: most, come: make(chan event.GenericEvent, backlog),
		taken: map[types.NamespacedName]bool{}, queue: list.New(), places: map[types.NamespacedName]*list.Element{},
	}
}

// rebuild learns once which clusters hold a slot, before any is given. They are woken: one may have given its slot back
// while they were listed.
func (t *turns) rebuild(ctx context.Context, holders func() ([]types.NamespacedName, error)) error {
	t.rebuilding.Lock()
	defer t.rebuilding.Unlock()
	t.mu.Lock()
	done := t.rebuilt
	t.mu.Unlock()
	if done {
		return nil
	}
	keys, err := holders()
	if err != nil {
		return err
	}
	t.mu.Lock()
	for _, key := range keys {
		t.hold(key)
	}
	t.rebuilt = true
	t.mu.Unlock()
	t.wake(ctx, keys)
	return nil
}

// take gives the cluster a slot, or has it wait for one.
func (t *turns) take(ctx context.Context, key types.NamespacedName) bool {
	t.mu.Lock()
	if !t.taken[key] && t.places[key] == nil {
		t.places[key] = t.queue.PushBack(key)
	}
	given := t.give()
	own := t.taken[key]
	t.mu.Unlock()
	t.wake(ctx, without(given, key))
	return own
}

// keep notes a cluster that holds a slot, by what is written on it.
func (t *turns) keep(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(key)
}

// leave takes the slot, or the place in the queue, of a cluster that needs none.
func (t *turns) leave(ctx context.Context, key types.NamespacedName) {
	t.mu.Lock()
	t.unqueue(key)
	delete(t.taken, key)
	given := t.give()
	t.mu.Unlock()
	t.wake(ctx, given)
}

// hold is keep under the lock.
func (t *turns) hold(key types.NamespacedName) {
	t.unqueue(key)
	t.taken[key] = true
}

// unqueue takes a cluster out of the queue. The lock is held.
func (t *turns) unqueue(key types.NamespacedName) {
	if place := t.places[key]; place != nil {
		t.queue.Remove(place)
		delete(t.places, key)
	}
}

// give hands out free slots and returns to whom. The lock is held.
func (t *turns) give() []types.NamespacedName {
	var given []types.NamespacedName
	for t.rebuilt && len(t.taken) < t.most && t.queue.Len() > 0 {
		key, _ := t.queue.Front().Value.(types.NamespacedName)
		t.hold(key)
		given = append(given, key)
	}
	return given
}

// wake has clusters reconciled.
func (t *turns) wake(ctx context.Context, keys []types.NamespacedName) {
	for _, key := range keys {
		select {
		case t.come <- event.GenericEvent{Object: clusterAt(key)}:
		case <-ctx.Done():
			return
		}
	}
}

func without(keys []types.NamespacedName, key types.NamespacedName) []types.NamespacedName {
	var others []types.NamespacedName
	for _, other := range keys {
		if other != key {
			others = append(others, other)
		}
	}
	return others
}
