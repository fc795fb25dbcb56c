package hub_test

import (
	"net"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// blackHole accepts connections and never answers.
type blackHole struct{ listener net.Listener }

func newBlackHole() *blackHole {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the spec
	Expect(err).NotTo(HaveOccurred())
	var mu sync.Mutex
	var held []net.Conn
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, connection)
			mu.Unlock()
		}
	}()
	DeferCleanup(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, connection := range held {
			_ = connection.Close()
		}
	})
	return &blackHole{listener}
}

// kubeconfig is that of a management cluster, but leads into the hole.
func (b *blackHole) kubeconfig(of *management) []byte {
	GinkgoHelper()
	return leadingTo(of, b.listener.Addr())
}
