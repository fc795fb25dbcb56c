package capi

import (
	"context"
	"net"
	"sync"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// sockets are the connections of one access. A transport closes what is idle at the moment, and does not say when the
// rest becomes so; here all are closed, those that are being made included.
type sockets struct {
	mu     sync.Mutex
	open   map[*socket]struct{}
	closed bool
}

// socket is one of them.
type socket struct {
	net.Conn
	of *sockets
}

// Close implements net.Conn.
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}

// keep has a function to dial keep what it dialled.
func (s *sockets) keep(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		kept := &socket{Conn: conn, of: s}
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.open[kept] = struct{}{}
		}
		s.mu.Unlock()
		if closed {
			_ = conn.Close() // nobody has used it
			return nil, net.ErrClosed
		}
		return kept, nil
	}
}

// close closes all, now and later.
func (s *sockets) close() {
	s.mu.Lock()
	open := s.open
	s.open, s.closed = map[*socket]struct{}{}, true
	s.mu.Unlock()
	for each := range open {
		_ = each.Conn.Close() // what is on its way there is given up
	}
}
