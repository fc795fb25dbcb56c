package rancher

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestDownloadReusesConnections(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) { testReuse(t, protocol) })
	}
}

func testReuse(t *testing.T, protocol string) {
	t.Helper()
	var fail atomic.Bool
	var seen atomic.Value
	server := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Proto)
		if fail.Load() {
			answer(http.StatusBadRequest, "text/plain", bytes.Repeat([]byte("x"), 1000))(w, r)
			return
		}
		answer(http.StatusOK, "text/plain", agentManifest(t))(w, r)
	}, protocol)
	d := newTestDownloader(t, DownloaderOptions{})
	for i := range 6 {
		fail.Store(i%2 == 1)
		_, err := d.Manifest(t.Context(), registrationAt(t, server.URL), server.trust(t))
		if failed := err != nil; failed != fail.Load() {
			t.Fatalf("download %d: %v", i, err)
		}
	}
	if got := seen.Load(); got != protocol {
		t.Fatalf("want %s, got %s", protocol, got)
	}
	if got := server.opened.Load(); got != 1 {
		t.Errorf("want one connection for six downloads, got %d", got)
	}

	// Other CAs are other connections, and only those of the last two are kept.
	fail.Store(false)
	for i := range 2 {
		if _, err := d.Manifest(t.Context(), registrationAt(t, server.URL), mustTrust(t, "strict", fmt.Sprintf("# %d\n%s", i, server.ca.pem))); err != nil {
			t.Fatal(err)
		}
	}
	if got := server.opened.Load(); got != 3 {
		t.Errorf("want a connection per trust, got %d", got)
	}
	select {
	case <-server.closed:
	case <-time.After(time.Minute):
		t.Error("the connection of a trust that was replaced stays open")
	}
}

// TestDownloadLeavesDeadConnections has a connection go silent between two downloads, as one does
// that a firewall has forgotten.
func TestDownloadLeavesDeadConnections(t *testing.T) {
	var protocol atomic.Value
	server := newRancherServer(t, func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		answer(http.StatusOK, "text/plain", agentManifest(t))(w, r)
	}, "HTTP/2.0")
	forwarder := newForwarder(t, server.Listener.Addr().String())
	d := newTestDownloader(t, DownloaderOptions{Timeout: time.Hour}) // who waits for it is seen to wait
	if got := d.clients.pings; got.SendPingTimeout <= 0 || got.SendPingTimeout > 30*time.Second || got.PingTimeout <= 0 || got.PingTimeout > 30*time.Second {
		t.Errorf("dead connections are noticed too late: %+v", got)
	}
	d.clients.pings = http.HTTP2Config{SendPingTimeout: 50 * time.Millisecond, PingTimeout: 50 * time.Millisecond}
	registration, trust := registrationAt(t, "https://"+forwarder.Addr().String()), server.trust(t)
	download := func() error {
		// A slow machine may take a connection for dead that lives.
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if _, err = d.Manifest(t.Context(), registration, trust); err == nil {
				return nil
			}
		}
		return err
	}
	if err := download(); err != nil {
		t.Fatal(err)
	}
	if got := protocol.Load(); got != "HTTP/2.0" {
		t.Fatalf("want HTTP/2.0, got %v", got)
	}

	forwarder.silence()
	// The first one may still be sent over the dead connection.
	if err := download(); err != nil {
		t.Errorf("a dead connection is used on: %v", err)
	}
}

// forwarder forwards TCP connections.
type forwarder struct {
	net.Listener
	// dead counts the connections that are forwarded no more.
	dead, accepted atomic.Int64
}

// silence keeps the connections there are open, and forwards nothing of theirs any more.
func (f *forwarder) silence() { f.dead.Store(f.accepted.Load()) }

func newForwarder(t *testing.T, target string) *forwarder {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{Listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	forward := func(from, to net.Conn, number int64) {
		defer func() { _ = from.Close() }()
		defer func() { _ = to.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if number <= f.dead.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := new(net.Dialer).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = front.Close()
				return
			}
			number := f.accepted.Add(1)
			go forward(front, back, number)
			go forward(back, front, number)
		}
	}()
	return f
}

// newProxy is a proxy that knows CONNECT and leads every host to one server.
func newProxy(t *testing.T, target string, status int) (proxy *httptest.Server, asked *atomic.Value) {
	t.Helper()
	asked = &atomic.Value{}
	proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host)
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		backend, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", target)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = backend.Close() }()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = client.Close() }()
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(backend, client) }()
		_, _ = io.Copy(client, backend)
	}))
	t.Cleanup(proxy.Close)
	return proxy, asked
}

func TestDownloadThroughProxy(t *testing.T) {
	ca := newAuthority(t)
	server := newRancherServerWith(t, ca, ca.issue(t, "rancher.test", time.Now().Add(time.Hour)), answer(http.StatusOK, "text/plain", agentManifest(t)))
	registration, trust := registrationAt(t, "https://rancher.test"), server.trust(t)
	through := func(proxy string) DownloaderOptions {
		return DownloaderOptions{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }}
	}

	proxy, asked := newProxy(t, server.Listener.Addr().String(), http.StatusOK)
	d := newTestDownloader(t, through(proxy.URL))
	if _, err := d.Manifest(t.Context(), registration, trust); err != nil {
		t.Fatal(err)
	}
	if got := asked.Load(); got != "CONNECT rancher.test:443" {
		t.Errorf("the proxy was asked for %v", got)
	}
	d.Close()

	refusing, _ := newProxy(t, "", http.StatusProxyAuthRequired)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, tc := range map[string]struct{ proxy, says string }{
		"Refusing": {proxy: refusing.URL, says: "407"},
		"Gone":     {proxy: "http://user:" + testToken + "@" + gone.Listener.Addr().String(), says: "cannot be reached"},
		"NotValid": {proxy: "http://" + testToken + "\x7f", says: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newTestDownloader(t, through(tc.proxy)).Manifest(t.Context(), registration, trust)
			wantProblem(t, err, outcome.KindFail, "RancherProxyFailed")
			wantNoSecret(t, err)
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %q in: %v", tc.says, err)
			}
		})
	}
}

// TestDownloadHonoursTheProxyOfTheEnvironment runs itself again in a process with another environment, because
// net/http reads the environment once.
func TestDownloadHonoursTheProxyOfTheEnvironment(t *testing.T) {
	const child = "ARCHELON_TEST_PROXIED"
	if os.Getenv(child) != "" {
		d, err := NewDownloader(DownloaderOptions{InsecureSkipTLSVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Manifest(t.Context(), registrationAt(t, "https://rancher.test"), Trust{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	server := newRancherServer(t, answer(http.StatusOK, "text/plain", agentManifest(t)))
	proxy, asked := newProxy(t, server.Listener.Addr().String(), http.StatusOK)
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), child+"=1", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := asked.Load(); got != "CONNECT rancher.test:443" {
		t.Errorf("the proxy was asked for %v", got)
	}
}
