package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

const (
	// startTimeout bounds what a new connection waits for.
	startTimeout = time.Minute
	// pollInterval is how often the API server of a cluster that has none yet is looked for.
	pollInterval = 500 * time.Millisecond
)

// Options say what is behind a gateway.
type Options struct {
	// Cluster is the CAPI Cluster.
	Cluster types.NamespacedName
	// Management reads the Secret with the CA of the workload cluster, which CAPI makes.
	Management client.Reader
	// APIServer returns where the API server of the workload cluster listens, host and port.
	APIServer func(context.Context, types.NamespacedName) (string, error)
}

// Request is one request to the workload cluster.
type Request struct {
	UserAgent, Method, Path string
	// Certificate is the serial number of the client's certificate, empty without one.
	Certificate string
	// Code is the status of the answer.
	Code int
}

// Gateway is a TLS server on a port of the loopback interface.
type Gateway struct {
	opts   Options
	door   *door
	server *http.Server
	cancel context.CancelFunc
	served chan struct{}
	memory http.Handler

	mu       sync.Mutex
	ready    *backend // nil until the cluster has a CA and an API server
	refused  map[string]bool
	requests []Request
}

// backend is what is known of the workload cluster once it has a CA and an API server.
type backend struct {
	address string
	ca      *authority
	tls     *tls.Config
	proxy   *httputil.ReverseProxy
	client  *http.Client
}

// Start takes a port. The cluster need not exist yet: it gets the port of the gateway as that of its control plane.
// Connections are refused until it has an API server. ctx bounds the start, not the life.
func Start(ctx context.Context, opts Options) (*Gateway, error) {
	door, err := newDoor()
	if err != nil {
		return nil, fmt.Errorf("preparing the gateway of workload cluster %s: %w", opts.Cluster, err)
	}
	g := &Gateway{opts: opts, door: door, served: make(chan struct{}), memory: workloadserver.Handler(), refused: map[string]bool{}}
	g.server = &http.Server{
		Handler:           http.HandlerFunc(g.serve),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // clients hang up whenever they like
	}
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(g.served)
		g.run(ctx)
	}()
	return g, nil
}

// run waits for the API server, and serves from then on.
func (g *Gateway) run(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) { return g.answers(ctx), nil })
	if err != nil { // there was none until Stop
		_ = g.door.close()
		return
	}
	listener, err := g.door.open()
	if err != nil { // clients are refused: whoever waits for the cluster says so
		return
	}
	_ = g.server.Serve(tls.NewListener(&living{Listener: listener, gateway: g}, &tls.Config{ // it ends with Stop, and returns nothing else
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return g.tlsConfig(hello.Context()) },
	}))
}

// Port is that of the control plane's endpoint.
func (g *Gateway) Port() int { return g.door.port }

// Stop cuts all connections.
func (g *Gateway) Stop() error {
	g.cancel()
	err := g.server.Close()
	<-g.served
	return err
}

// Config returns the access of an administrator with a certificate of its own, as Rancher's agent has one. It is an
// error until the cluster has an API server.
func (g *Gateway) Config(ctx context.Context) (*rest.Config, error) {
	b, err := g.backend(ctx)
	if err != nil {
		return nil, err
	}
	cert, key, err := b.ca.issueClient("agent")
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(g.door.port)),
		// Typed clients would send protobuf.
		ContentConfig:   rest.ContentConfig{ContentType: "application/json"},
		TLSClientConfig: rest.TLSClientConfig{CAData: b.ca.pem, CertData: cert, KeyData: key},
	}, nil
}

// Refuse has the client certificate with the serial number answered with 401 from now on.
func (g *Gateway) Refuse(serial string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[serial] = true
}

// Requests returns what was asked so far.
func (g *Gateway) Requests() []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

func (g *Gateway) record(r Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r)
}

// backend finds the CA and the API server of the cluster, until it has.
func (g *Gateway) backend(ctx context.Context) (*backend, error) {
	g.mu.Lock()
	known := g.ready
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	address, err := g.opts.APIServer(ctx, g.opts.Cluster)
	if err != nil {
		return nil, err
	}
	// Before it listens nobody needs the CA, which costs a request to the management cluster each
	// time that it is not there yet.
	if err := dial(ctx, address); err != nil {
		return nil, err
	}
	ca, err := readAuthority(ctx, g.opts.Management, g.opts.Cluster)
	if err != nil {
		return nil, err
	}
	b := &backend{address: address, ca: ca}
	if b.tls, err = ca.serving(); err != nil {
		return nil, err
	}
	// HTTP/1.1, because connections are upgraded, and for one kind of end of a connection.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}}
	b.client = &http.Client{Transport: transport}
	b.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: address})
			// By its port the server knows which cluster is meant.
			r.Out.Host = address
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ready == nil {
		g.ready = b
	}
	return g.ready, nil
}

func (g *Gateway) tlsConfig(ctx context.Context) (*tls.Config, error) {
	b, err := g.backend(ctx)
	if err != nil {
		return nil, err
	}
	return b.tls, nil
}

// living accepts connections as long as there is an API server to serve them. While it is away they are reset.
type living struct {
	net.Listener

	gateway *Gateway
}

// Accept implements net.Listener.
func (l *living) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.gateway.answers(context.Background()) {
			return connection, nil
		}
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = connection.Close()
	}
}

// answers reports whether the API server takes connections.
func (g *Gateway) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	b, err := g.backend(ctx)
	if err != nil {
		return false
	}
	return dial(ctx, b.address) == nil
}

func dial(ctx context.Context, address string) error {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}
