package capi

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

const (
	idleConnTimeout = 90 * time.Second
	maxIdlePerHost  = 2
	maxHeaderBytes  = 64 << 10
	maxProbeBytes   = 64 << 10
)

// session is one access to a cluster: an address and credentials. It shares neither connections nor credentials with
// any other.
type session struct {
	fingerprint string
	// config is what the fingerprint is of, whose functions it names by their places in memory.
	config *rest.Config
	// authority is what says which server it is: the address, and who vouches for it.
	authority [sha256.Size]byte
	base      *url.URL
	transport *http.Transport
	sockets   *sockets
	// wrapped adds the credentials.
	wrapped        http.RoundTripper
	certificateEnd time.Time
	timing         Timing
	// most is how many bytes the answer to a request may have that is no watch.
	most int64

	// retired is that there is a successor: watches end as if the server had ended them, requests go on.
	retired  atomic.Bool
	watches  context.Context //nolint:containedctx // its end is that of all watches
	retire   context.CancelFunc
	requests context.Context //nolint:containedctx // its end is that of all requests
	abort    context.CancelFunc
	inflight atomic.Int64
	// settled is closed when it is known that there are no other credentials.
	settled chan struct{}
	denied  atomic.Bool
}

// newSession makes one. It sends nothing.
func newSession(config *rest.Config, timing Timing, most int64) (*session, error) {
	if config.AuthProvider != nil {
		return nil, refused(kubeconfig.AuthProviderReason,
			"Auth-providers, which Kubernetes has removed, are not used to get credentials. Use a token or a client certificate")
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, refused(kubeconfig.InvalidReason, "There is no valid URL of the server. Correct it")
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause may quote what it read.
		return nil, refused(kubeconfig.InvalidReason, unusable(config, "The certificates cannot be used. Correct them"))
	}
	c := &session{
		fingerprint: fingerprintOf(config), config: config, base: base, timing: timing, most: most, settled: make(chan struct{}),
		authority:      sha256.Sum256([]byte(base.String() + "\x00" + config.ServerName + "\x00" + string(config.CAData))),
		certificateEnd: connection.CertificateEnd(config), sockets: &sockets{open: map[*socket]struct{}{}},
	}
	c.transport = newTransport(config, tlsConfig, c.sockets, timing.Dial)
	var plain http.RoundTripper = c.transport
	if config.Transport != nil {
		plain = config.Transport
	}
	if c.wrapped, err = rest.HTTPWrappersForConfig(config, plain); err != nil {
		return nil, refused(kubeconfig.InvalidReason, unusable(config, "A token is mixed with a user name and password. Keep one of them"))
	}
	c.requests, c.abort = context.WithCancel(context.Background())
	c.watches, c.retire = context.WithCancel(c.requests)
	return c, nil
}

// unusable says what is wrong with credentials: with a program that gets them, it is most likely that.
func unusable(config *rest.Config, otherwise string) string {
	if config.ExecProvider != nil {
		return "The program that gets credentials cannot be used. Correct its command, apiVersion and interactiveMode"
	}
	return otherwise
}

func refused(reason, message string) error {
	return problem.Wait(reason, "%s", message)
}

func newTransport(config *rest.Config, tlsConfig *tls.Config, kept *sockets, dial time.Duration) *http.Transport {
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy: proxy, DialContext: kept.keep(connection.Dialer(config, dial)), TLSClientConfig: tlsConfig, TLSHandshakeTimeout: dial,
		IdleConnTimeout: idleConnTimeout, MaxIdleConnsPerHost: maxIdlePerHost, MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression: config.DisableCompression,
	})
}

// withdraw has watches end, and leaves requests to their end. There is a successor.
func (c *session) withdraw() {
	c.retired.Store(true)
	c.retire()
	if c.inflight.Load() == 0 {
		c.sockets.close()
	}
}

// cut ends all that uses the connection.
func (c *session) cut() {
	c.retired.Store(true)
	c.abort()
	c.sockets.close()
}

// release gives the connection back, which is closed then if it has a successor and nobody uses it any more.
func (c *session) release() {
	if c.inflight.Add(-1) == 0 && c.retired.Load() {
		c.sockets.close()
	}
}

// settle says that there are no other credentials than these, which were refused.
func (c *session) settle() {
	if c.denied.CompareAndSwap(false, true) {
		close(c.settled)
	}
}

// address returns a request that is addressed to the server.
func (c *session) address(req *http.Request) *http.Request {
	addressed := req.Clone(req.Context())
	addressed.URL.Scheme, addressed.URL.Host = c.base.Scheme, c.base.Host
	addressed.URL.Path = strings.TrimSuffix(c.base.Path, "/") + req.URL.Path
	if req.URL.RawPath != "" {
		addressed.URL.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + req.URL.RawPath
	}
	addressed.Host = ""
	return addressed
}

// request sends a request that is no watch, bounded in time and in the size of its answer.
func (c *session) request(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.timing.Request)
	return c.send(c.requests, req.WithContext(ctx), cancel, c.most) //nolint:contextcheck // it ends with the connection, too
}

// errNoHeader is that a server took a watch and did not begin to answer.
var errNoHeader = errors.New("the workload cluster did not begin to answer a watch in time")

// watch sends a watch, bounded by the time that it asks for itself. The server has to begin its answer as soon as that
// of any other request has to end.
func (c *session) watch(req *http.Request, lasts time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), lasts)
	timer := time.AfterFunc(c.timing.Request, cancel)
	resp, err := c.send(c.watches, req.WithContext(ctx), cancel, 0) //nolint:contextcheck // it ends with the connection, too
	if began := timer.Stop(); err != nil && !began && req.Context().Err() == nil {
		return nil, errNoHeader
	}
	return resp, err
}

// send sends a request until a context ends, which is beside that of the request. The answer has at most so many
// bytes; a watch has no limit.
func (c *session) send(
	until context.Context, req *http.Request, cancel context.CancelFunc, most int64,
) (*http.Response, error) {
	c.inflight.Add(1)
	detach := context.AfterFunc(until, cancel)
	done := func() {
		detach()
		cancel()
		c.release()
	}
	resp, err := c.wrapped.RoundTrip(c.address(req))
	if err != nil {
		// A connection that is still being made outlives its request, and ends with nothing else.
		c.transport.CloseIdleConnections()
		done()
		return nil, err
	}
	// It would have a client pause for as long as a stranger says.
	resp.Header.Del("Retry-After")
	answer := &answer{ReadCloser: resp.Body, done: done, session: c, watch: most == 0}
	if most > 0 {
		answer.ReadCloser = http.MaxBytesReader(nil, resp.Body, most)
	}
	resp.Body = answer
	return resp, nil
}

// answer is the body of one.
type answer struct {
	io.ReadCloser
	session *session
	watch   bool
	over    atomic.Bool
	done    func()
}

// Read implements io.Reader. A watch over a connection that has a successor ends as if the server had ended it, so that
// it is begun again where it was.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && a.watch && a.session.retired.Load() {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	if a.over.CompareAndSwap(false, true) {
		a.done()
	}
	return err
}

// probe asks the server for its version. It is the answer of an API server that knows the credentials, or an error.
func (c *session) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timing.Probe)
	defer cancel()
	const action = "asking for its version"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+knownAs+"/version", nil)
	if err != nil {
		return err
	}
	resp, err := c.request(req)
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // it was read
		err = checkVersion(resp)
	}
	if err == nil {
		return nil
	}
	return connection.Request{Action: action, Timeout: c.timing.Probe, CertificateEnd: c.certificateEnd}.Explain(err)
}

func checkVersion(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeBytes))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusForbidden:
		return nil // It knows the credentials, and does not tell its version.
	case resp.StatusCode != http.StatusOK:
		return apierrors.NewGenericServerResponse(resp.StatusCode, "get", schema.GroupResource{}, "", "", 0, false)
	}
	found := version.Info{}
	if err := json.Unmarshal(body, &found); err != nil || found.GitVersion == "" {
		return errNoAPI
	}
	return nil
}
