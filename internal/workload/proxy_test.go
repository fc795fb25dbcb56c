package workload

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

func through(proxy string) func(*api.Cluster, *api.AuthInfo) {
	return func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.ProxyURL = proxy }
}

// listeningProxy counts the connections to a proxy on a loopback address, which refuses what it is asked in its own
// words. It returns the proxy's port.
func listeningProxy(t *testing.T) (port string, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	server := httptest.NewUnstartedServer(cut("HTTP/1.1 403 s3cret\r\nContent-Length: 6\r\n\r\ns3cret"))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, connections
}

// A name says nothing of the address that it resolves to when it is dialled.
func TestNamesOfLocalProxiesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		host     string
		resolves string
	}{
		"Loopback":   {host: "proxy.example.com", resolves: "127.0.0.1"},
		"Mapped":     {host: "proxy.example.com", resolves: "::ffff:127.0.0.1"},
		"LinkLocal":  {host: "proxy.example.com", resolves: "169.254.169.254"},
		"LinkLocal6": {host: "proxy.example.com", resolves: "fe80::1"},
		"Nowhere":    {host: "proxy.example.com", resolves: "0.0.0.0"},
		"WideDigits": {host: "１２７.0.0.１"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resolves != "" {
				resolveAllTo(t, netip.MustParseAddr(tc.resolves))
			}
			port, connections := listeningProxy(t)
			for _, scheme := range []string{"http", "https", "socks5"} {
				c := connect(t, Options{}, written(t, "https://10.0.0.1:6443", nil, through(scheme+"://"+tc.host+":"+port)))
				err := findJob(t.Context(), c)
				wantProblem(t, err, outcome.KindFail, "KubeconfigProxyRefused")
				if !strings.Contains(err.Error(), "proxy.allowLocalURLs") || strings.Contains(err.Error(), port) {
					t.Errorf("%s: the message does not say what to do, or says what the name resolves to: %v", scheme, err)
				}
			}
			if got := connections.Load(); got != 0 {
				t.Errorf("%d connections were made", got)
			}
		})
	}
}

func TestLocalProxiesCanBeAllowed(t *testing.T) {
	resolveAllTo(t, netip.MustParseAddr("127.0.0.1"))
	port, connections := listeningProxy(t)
	for _, host := range []string{"127.0.0.1", "proxy.example.com"} {
		before := connections.Load()
		c := connect(t, Options{Allow: kubeconfig.Allow{LocalProxies: true}},
			written(t, "https://10.0.0.1:6443", nil, through("http://"+host+":"+port)))
		// What the proxy says is not repeated.
		wantProblem(t, findJob(t.Context(), c), outcome.KindFail, "WorkloadUnreachable")
		if connections.Load() == before {
			t.Errorf("%s: the proxy was not asked", host)
		}
	}
}

// resolveAllTo has all names resolve to one address until the test ends.
func resolveAllTo(t *testing.T, address netip.Addr) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerName(server, address)
		return client, nil
	}}
}

// answerName answers a question of DNS, as RFC 1035 has it over TCP.
func answerName(connection net.Conn, address netip.Addr) {
	defer func() { _ = connection.Close() }()
	length := make([]byte, 2)
	if _, err := io.ReadFull(connection, length); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(length))
	if _, err := io.ReadFull(connection, query); err != nil {
		return
	}
	const header = 12
	end := header
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5
	asked := binary.BigEndian.Uint16(query[end-4:])
	answer := append([]byte{}, query[:2]...)                    // the ID
	answer = append(answer, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0) // an answer, to one question
	answer = append(answer, query[header:end]...)
	const a, aaaa = 1, 28
	if (asked == a && address.Is4()) || (asked == aaaa && !address.Is4()) {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, byte(asked), 0, 1, 0, 0, 0, 0, 0, byte(address.BitLen()/8))
		answer = append(answer, address.AsSlice()...)
	}
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
	_, _ = connection.Write(append(framed, answer...))
}
