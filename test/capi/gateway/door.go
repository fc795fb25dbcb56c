package gateway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// door is a port of the loopback interface that nobody else gets, and that takes connections once it is opened. Until
// then they are refused, as those to a machine on which no API server runs yet. That matters: client-go tries again at
// once when a connection is reset, as often as its rate limiter allows, and not when it is refused. Four controllers of
// a hundred clusters that are not there yet would keep a machine busy with nothing else.
type door struct {
	port int
	held *os.File // a socket that is bound and does not listen
}

func newDoor() (*door, error) {
	// As in package net: no child process may keep the port.
	syscall.ForkLock.RLock()
	descriptor, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(descriptor)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	d := &door{held: os.NewFile(uintptr(descriptor), "gateway")}
	if err := syscall.Bind(descriptor, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, errors.Join(fmt.Errorf("taking a port: %w", err), d.close())
	}
	address, err := syscall.Getsockname(descriptor)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking for the port that was taken: %w", err), d.close())
	}
	d.port = address.(*syscall.SockaddrInet4).Port //nolint:forcetypeassert // of an IPv4 socket
	return d, nil
}

// open takes connections. The port belongs to the listener from then on.
func (d *door) open() (net.Listener, error) {
	if err := syscall.Listen(int(d.held.Fd()), syscall.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("listening on port %d: %w", d.port, err)
	}
	listener, err := net.FileListener(d.held)
	if err != nil {
		return nil, fmt.Errorf("listening on port %d: %w", d.port, err)
	}
	return listener, d.close() // the listener has a descriptor of its own
}

func (d *door) close() error { return d.held.Close() }
