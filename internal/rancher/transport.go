package rancher

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	// maxClients is how many sets of trusted CAs keep connections: the present one, and one more
	// while a change of Rancher's CA passes through the caches.
	maxClients = 2

	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 90 * time.Second
	maxIdlePerHost      = 10
	maxHeaderBytes      = 64 << 10

	// All downloads share an HTTP/2 connection. One that is dead without a word, because a node or a firewall forgot it,
	// is asked for a sign of life after pingAfter of silence and given up pingTimeout later; else all imports would wait
	// for TCP to give it up, many minutes.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// clientPool keeps one HTTP client, and so one set of connections, per set of trusted CAs.
type clientPool struct {
	insecure bool
	pings    http.HTTP2Config
	proxy    func(*http.Request) (*url.URL, error)

	mu sync.Mutex
	// clients holds the most recently used client last.
	clients []pooledClient
}

type pooledClient struct {
	fingerprint string
	http        *http.Client
}

// get returns the client for a trust, and drops the least recently used one when there are too many.
func (p *clientPool) get(trust Trust) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()

	fingerprint := trust.Fingerprint()
	at := slices.IndexFunc(p.clients, func(c pooledClient) bool { return c.fingerprint == fingerprint })
	if at >= 0 {
		found := p.clients[at]
		p.clients = append(slices.Delete(p.clients, at, at+1), found)
		return found.http
	}
	if len(p.clients) == maxClients {
		p.clients[0].http.CloseIdleConnections()
		p.clients = slices.Delete(p.clients, 0, 1)
	}
	created := &http.Client{Transport: p.transport(trust), CheckRedirect: checkRedirect}
	p.clients = append(p.clients, pooledClient{fingerprint: fingerprint, http: created})
	return created
}

// close closes the idle connections of all clients.
func (p *clientPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.http.CloseIdleConnections()
	}
}

func (p *clientPool) transport(trust Trust) *http.Transport {
	return &http.Transport{
		Proxy: func(req *http.Request) (*url.URL, error) {
			proxy, err := p.proxy(req)
			if err != nil {
				// The cause is dropped because it quotes the proxy's URL, maybe with a password.
				return nil, &proxyError{}
			}
			return proxy, nil
		},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return &proxyError{status: resp.StatusCode}
			}
			return nil
		},
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            trust.pool(),
			InsecureSkipVerify: p.insecure, //nolint:gosec // a flag for development, off by default
		},
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &p.pings,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}
