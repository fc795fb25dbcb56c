package importer

import (
	"context"
	"sync"
)

// gate has fewer installations go on at the same time while Rancher clusters wait to be created. From its creation on
// Rancher prepares a Rancher cluster, for which it takes longer than a creation: that goes on beside the installations
// then, and not after them. Some always go on, so that what is imported slowly does not hold up what is imported first.
type gate struct {
	// few is how many go on meanwhile.
	few int
	// creating returns how many creations wait, nil for none ever. It must not lock what opened is called under.
	creating func() int

	mu      sync.Mutex
	inside  int
	changed chan struct{}
}

func newGate(few int) *gate { return &gate{few: max(1, few), changed: make(chan struct{})} }

// enter returns when an installation may begin, or the context ends. The returned function ends it.
func (g *gate) enter(ctx context.Context) (leave func()) {
	for {
		g.mu.Lock()
		if g.creating == nil || g.inside < g.few || g.creating() == 0 {
			g.inside++
			g.mu.Unlock()
			return g.leave
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return func() {}
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	g.inside--
	g.mu.Unlock()
	g.opened()
}

// opened has those that wait look again.
func (g *gate) opened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}
