package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// gate is a way to a server that can be cut, and mended.
type gate struct {
	address, to string

	mu       sync.Mutex
	listener net.Listener // nil while the way is cut
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newGate returns an open way to an address.
func newGate(ctx context.Context, to string) (*gate, error) {
	g := &gate{address: "127.0.0.1:0", to: to, open: map[net.Conn]struct{}{}}
	return g, g.mend(ctx)
}

// mend has connections go through again, at the same address.
func (g *gate) mend(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", g.address)
	if err != nil {
		return fmt.Errorf("listening in front of a management cluster: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener, g.address = listener, listener.Addr().String()
	g.running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			g.running.Go(func() { g.pass(ctx, from) })
		}
	})
	return nil
}

// pass copies what two sides of a connection say until one of them ends.
func (g *gate) pass(ctx context.Context, from net.Conn) {
	to, err := new(net.Dialer).DialContext(ctx, "tcp", g.to)
	if err != nil || !g.keep(from, to) {
		_ = from.Close()
		if err == nil {
			_ = to.Close()
		}
		return
	}
	ways := [][2]net.Conn{{from, to}, {to, from}}
	ended := make(chan struct{}, len(ways))
	for _, way := range ways {
		g.running.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // how it ends does not matter
			ended <- struct{}{}
		})
	}
	<-ended
	_, _ = from.Close(), to.Close() // Who says something to a side that is closed is told so.
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, from)
	delete(g.open, to)
}

// keep remembers the sides of a connection, unless the way was cut meanwhile.
func (g *gate) keep(sides ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, side := range sides {
		if g.listener != nil {
			g.open[side] = struct{}{}
		}
	}
	return g.listener != nil
}

// cut ends all connections, and refuses new ones. It returns when nothing passes any more.
func (g *gate) cut() {
	g.mu.Lock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for side := range g.open {
		_ = side.Close()
	}
	g.mu.Unlock()
	g.running.Wait()
}
