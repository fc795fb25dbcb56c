package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports that FreeAddresses chooses from. The kernel takes local ports of outgoing connections from 32768 on, so
// those that are free now may be taken when a program listens a second later: with some hundred connections and
// starts that is a failure in every other run. From 19000 on Cluster API's in-memory infrastructure has ports that
// cannot be changed (test/capi).
const (
	firstPort = 10000
	lastPort  = 19000
)

// FreeAddresses returns n different addresses on the loopback interface, host:port, on which nothing listens.
func FreeAddresses(n int) ([]string, error) {
	var addresses []string
	for tries := 0; len(addresses) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("found %d of %d free ports from %d to %d", len(addresses), n, firstPort, lastPort)
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		listener, err := net.Listen("tcp", address) //nolint:noctx // it is closed at the end
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		// They are all open until the last one is found, so that they differ.
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, address)
	}
	return addresses, nil
}
