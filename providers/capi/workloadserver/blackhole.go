package workloadserver

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// blackHole accepts connections and never reads from them or writes to them.
type blackHole struct {
	listener net.Listener
	done     chan struct{}

	mu          sync.Mutex
	connections []net.Conn
}

func openBlackHole(ctx context.Context) (*blackHole, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening as a black hole: %w", err)
	}
	b := &blackHole{listener: listener, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			b.mu.Lock()
			b.connections = append(b.connections, connection)
			b.mu.Unlock()
		}
	}()
	return b, nil
}

func (b *blackHole) address() string { return b.listener.Addr().String() }

func (b *blackHole) close() error {
	err := b.listener.Close()
	<-b.done
	for _, connection := range b.connections {
		_ = connection.Close() // the other side may have gone long ago
	}
	return err
}
