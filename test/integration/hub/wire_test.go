package hub_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
)

// state is what a wire does.
type state string

const (
	// joined: what comes is passed on.
	joined state = "joined"
	// refused: connections are reset, those that are there as well as new ones.
	refused state = "refused"
	// swallowed: connections stay and new ones are accepted, and nothing that is sent arrives.
	swallowed state = "swallowed"
)

// wire leads to the API server of a management cluster, and can be cut.
type wire struct {
	listener net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	state   state
	ends    map[net.Conn]struct{}
}

func newWire(to *management) *wire {
	GinkgoHelper()
	target, err := url.Parse(to.Config.Host)
	Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the spec
	Expect(err).NotTo(HaveOccurred())
	w := &wire{listener: listener, state: joined, ends: map[net.Conn]struct{}{}}
	w.changed = sync.NewCond(&w.mu)
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { w.serve(ctx, client, target.Host) })
		}
	})
	DeferCleanup(func() {
		_ = listener.Close()
		cancel()
		w.set(refused)
		open.Wait()
	})
	return w
}

// set cuts or joins the wire.
func (w *wire) set(state state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	if state == refused {
		for end := range w.ends {
			reset(end)
		}
	}
	w.changed.Broadcast()
}

// reset ends a connection as a host does that knows nothing of it.
func reset(end net.Conn) {
	if tcp, ok := end.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = end.Close()
}

// passes waits while nothing arrives.
func (w *wire) passes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.state == swallowed {
		w.changed.Wait()
	}
}

func (w *wire) serve(ctx context.Context, client net.Conn, target string) {
	w.passes()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		reset(client)
		return
	}
	w.mu.Lock()
	for _, end := range []net.Conn{client, server} {
		w.ends[end] = struct{}{}
		if w.state == refused {
			reset(end)
		}
	}
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.copy(server, client) })
	both.Go(func() { w.copy(client, server) })
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, client)
	delete(w.ends, server)
}

func (w *wire) copy(to io.WriteCloser, from io.ReadCloser) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.passes()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// kubeconfig is that of a management cluster, and leads through the wire.
func (w *wire) kubeconfig(of *management) []byte {
	GinkgoHelper()
	return leadingTo(of, w.listener.Addr())
}

// leadingTo is the kubeconfig of a management cluster with another address.
func leadingTo(of *management, address net.Addr) []byte {
	GinkgoHelper()
	config, err := clientcmd.Load(of.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + address.String()
	}
	raw, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}
