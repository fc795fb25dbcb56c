package workload

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

const (
	// idleConnTimeout is short because a cluster that is imported is not talked to any more.
	idleConnTimeout = 20 * time.Second
	maxIdlePerHost  = 2
	maxHeaderBytes  = 64 << 10
)

// Client is a client of one workload cluster. All its requests are bounded in time and size. It may
// be used concurrently.
type Client struct {
	fingerprint string
	timeout     time.Duration
	// certificateEnd is when the client certificate expires; zero without one.
	certificateEnd time.Time
	transport      *http.Transport
	config         *rest.Config
	place          Place
	dialTimeout    time.Duration
	// host is that of the server. That of the config is what client-go knows it as.
	host string
	http *http.Client
	// api knows the kinds of newMapper.
	api client.Client
	// turns is shared by all clients; see turn.
	turns chan struct{}
}

// Place is where a kubeconfig leads to.
type Place struct {
	// Server is its URL.
	Server string
	// Authority is a hash of who vouches for the server.
	Authority string
	// Namespace is that of the context; empty if it names none.
	Namespace string
	// Misplaced is whether the namespace stands beside the context.
	Misplaced bool
}

func placeOf(access kubeconfig.Access) Place {
	sum := sha256.Sum256([]byte(access.Config.ServerName + "\x00" + string(access.Config.CAData)))
	return Place{
		Server: access.Config.Host, Authority: hex.EncodeToString(sum[:16]), Namespace: access.Namespace, Misplaced: access.Misplaced,
	}
}

// Place returns where the kubeconfig of the client leads to.
func (c *Client) Place() Place { return c.place }

// String implements fmt.Stringer without credentials.
func (c *Client) String() string {
	return "client of the workload cluster with kubeconfig " + c.fingerprint
}

// GoString implements fmt.GoStringer without credentials.
func (c *Client) GoString() string { return c.String() }

// newClient makes a client. It has a transport of its own, instead of one from client-go's cache, to
// close its connections when it is dropped.
func (c *Clients) newClient(raw []byte, from kubeconfig.Source, fingerprint string) (*Client, error) {
	access, err := from.Access(raw, c.options.Allow)
	if err != nil {
		return nil, err
	}
	config := access.Config
	place := placeOf(access)
	config.UserAgent = c.options.UserAgent
	config.QPS = -1
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	// The few requests of an import follow one another. HTTP/2 would cost a connection's worth of tables
	// and buffers for each cluster.
	config.NextProtos = []string{"http/1.1"}
	// Warnings are a stranger's text and would end up in the log.
	config.WarningHandlerWithContext = warningHandler{}

	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.New("the kubeconfig has no valid server URL")
	}
	known := *server
	known.Host = knownAs
	config.Host = known.String()

	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause is dropped because it may quote the kubeconfig.
		return nil, problem.Wait(kubeconfig.InvalidReason, "The kubeconfig holds certificates that cannot be used. Correct the Secret")
	}
	transport := NewTransport(config, tlsConfig, c.options.DialTimeout)
	wrapped, err := rest.HTTPWrappersForConfig(config, &answerTransport{base: transport, host: server.Host})
	if err != nil {
		return nil, problem.Wait(kubeconfig.InvalidReason, "The kubeconfig mixes a token with a user name and password. Keep one of them")
	}
	created := &Client{
		fingerprint:    fingerprint,
		timeout:        c.options.Timeout,
		certificateEnd: connection.CertificateEnd(config),
		transport:      transport,
		config:         config,
		place:          place,
		dialTimeout:    c.options.DialTimeout,
		host:           server.Host,
		// Each call bounds itself by its context, which covers retries as well.
		http:  &http.Client{Transport: wrapped, CheckRedirect: refuseRedirect},
		turns: c.turns,
	}
	created.api, err = created.connect(c.mapper)
	return created, err
}

// connect returns a client of objects of some kinds.
func (c *Client) connect(kinds meta.RESTMapper) (client.Client, error) {
	api, err := client.New(c.config, client.Options{HTTPClient: c.http, Mapper: kinds})
	if err != nil {
		return nil, errors.New("the client of the workload cluster cannot be made from its kubeconfig")
	}
	return api, nil
}

// NewTransport returns a transport to the server of a kubeconfig, without its credentials.
func NewTransport(config *rest.Config, tlsConfig *tls.Config, dialTimeout time.Duration) *http.Transport {
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:                  proxy,
		DialContext:            connection.Dialer(config, dialTimeout),
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleConnTimeout,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     config.DisableCompression,
	})
}

// refuseRedirect keeps credentials from following a redirect: the round trippers of client-go add them to
// every request, whatever its host.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// exchangeError is a request without an answer. It hides the cause from client-go, which would repeat a read for ten
// seconds, one a second, after a reset, as a load balancer without servers behind it sends: then only the timeout would
// be left to report, and a dead cluster would have cost a worker all of it. Whether to try again is for the caller.
type exchangeError struct{ cause error }

// Error implements error.
func (*exchangeError) Error() string { return "the exchange with the workload cluster broke off" }

// Timeout is what an error that wraps it asks for, without knowing the cause.
func (e *exchangeError) Timeout() bool { return connection.IsTimeout(e.cause) }

// call runs one request, or the pages of a list, within the timeout of the client and names
// its failure after an action.
func (c *Client) call(ctx context.Context, action string, request func(context.Context) error) error {
	timed, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	mine := &turn{turns: c.turns}
	defer mine.end()
	err := request(context.WithValue(timed, turnKey{}, mine))
	if err == nil {
		return nil
	}
	// A connection that is still being made outlives its request, and ends with nothing else: a SOCKS proxy that accepts
	// and says nothing would cost a connection and two goroutines for every try.
	c.close()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", action, ctx.Err())
	}
	if known, ok := errors.AsType[*problem.Problem](err); ok {
		return known
	}
	if broken, ok := errors.AsType[*exchangeError](err); ok {
		err = errors.Join(err, broken.cause)
	}
	// The error alone does not always tell: a server may end its answer in good order, but too early, when it
	// sees that the client is about to leave.
	return c.explain(errors.Join(err, timed.Err()), action)
}

// close closes the connections that are idle, and those that are being made for nobody; those in use
// follow when they become idle.
func (c *Client) close() { c.transport.CloseIdleConnections() }

// explain names the cause of a request that failed.
func (c *Client) explain(err error, action string) error {
	return connection.Request{Action: action, Timeout: c.timeout, CertificateEnd: c.certificateEnd}.Explain(err)
}
