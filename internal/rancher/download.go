package rancher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

const (
	defaultTimeout  = 30 * time.Second
	defaultMaxBytes = 4 << 20

	// maxRedirects suffices for an ingress that adds a slash or a path.
	maxRedirects = 3
	// maxDrain is read from the body of a refusal so that its connection can be used again.
	maxDrain = 16 << 10
)

// DownloaderOptions configure a Downloader. The zero value holds the defaults.
type DownloaderOptions struct {
	// Timeout bounds a download from its first to its last byte; 30 seconds when zero.
	Timeout time.Duration
	// MaxBytes bounds the manifest, after decompression; 4 MiB when zero.
	MaxBytes int64
	// InsecureSkipTLSVerify accepts any certificate. It is for development only.
	InsecureSkipTLSVerify bool
	// Proxy returns the proxy of a request; nil stands for http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
}

// Downloader downloads the manifest of Rancher's agent. It keeps connections and may be used
// concurrently.
type Downloader struct {
	timeout  time.Duration
	maxBytes int64
	clients  *clientPool

	mu sync.Mutex
	// logged are the kinds that were not known and of which the log tells. A manifest is downloaded for each cluster.
	logged sets.Set[schema.GroupVersionKind]
}

// NewDownloader returns a Downloader. Negative limits are an error.
func NewDownloader(o DownloaderOptions) (*Downloader, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("timeout %s of the manifest download is negative", o.Timeout)
	}
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("size limit %d of the manifest download is negative", o.MaxBytes)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	return &Downloader{
		timeout:  o.Timeout,
		maxBytes: o.MaxBytes,
		clients: &clientPool{
			insecure: o.InsecureSkipTLSVerify,
			pings:    http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
			proxy:    o.Proxy,
		},
		logged: sets.Set[schema.GroupVersionKind]{},
	}, nil
}

// Manifest downloads and checks the manifest of Rancher's agent. All that can go wrong on the way is
// a Problem; the error of ctx is returned when ctx ends first.
func (d *Downloader) Manifest(ctx context.Context, registration Registration, trust Trust) (*Manifest, error) {
	timed, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()

	data, err := d.get(timed, registration, trust)
	if err == nil {
		var manifest *Manifest
		if manifest, err = ParseManifest(data); err == nil {
			d.logUnknown(ctx, manifest)
			return manifest, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("downloading the agent's manifest: %w", ctx.Err())
	}
	var problem *outcome.Problem
	if !errors.As(err, &problem) {
		problem = d.transportProblem(err, trust)
	}
	// What a stranger sends never reaches a message unchecked; this is the second line.
	problem.Message = registration.redact(problem.Message)
	return nil, problem
}

// maxLogged is how many kinds the log tells of: whoever answers in Rancher's place may make up any number of them.
const maxLogged = 50

// logUnknown logs kinds that Rancher's template did not have so far, each once.
func (d *Downloader) logUnknown(ctx context.Context, manifest *Manifest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range manifest.unknown {
		if d.logged.Has(kind) || d.logged.Len() == maxLogged {
			continue
		}
		d.logged.Insert(kind)
		ctrl.LoggerFrom(ctx).Info("The manifest of Rancher's agent has a kind that this version does not know; "+
			"it is applied as it is", "kind", kind.String())
	}
}

// Close closes the connections that are idle.
func (d *Downloader) Close() { d.clients.close() }

// get returns the body of the manifest URL. Its errors are Problems, or raw errors of the transport.
func (d *Downloader) get(ctx context.Context, registration Registration, trust Trust) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, registration.ManifestURL(), nil)
	if err != nil {
		// The cause is dropped because it quotes the URL.
		return nil, waitFor(archelonv1.RegistrationURLInvalidReason,
			"The manifest URL of Rancher cluster %s is not valid. Check Rancher's setting server-url", registration.Cluster())
	}
	req.Header.Set("User-Agent", "archelon")

	resp, err := d.clients.get(trust).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		// A failure to drain or close costs a connection, nothing else.
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
		_ = resp.Body.Close()
	}()
	if resp.StatusCode != http.StatusOK {
		return nil, statusProblem(resp.StatusCode, registration.Cluster())
	}
	if resp.ContentLength > d.maxBytes {
		return nil, tooLarge(d.maxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, d.maxBytes+1))
	if err != nil {
		return nil, errors.Join(errTruncated, err)
	}
	// A server may end the body in good order when it sees that the client is about to leave.
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if int64(len(data)) > d.maxBytes {
		return nil, tooLarge(d.maxBytes)
	}
	if mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && mediaType == "text/html" {
		return nil, htmlProblem(len(data))
	}
	return data, nil
}

// checkRedirect follows redirects on the same host only: the URL holds a token.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if !strings.EqualFold(req.URL.Host, via[0].URL.Host) || req.URL.Scheme != "https" {
		return errForeignRedirect
	}
	if len(via) > maxRedirects {
		return errTooManyRedirects
	}
	// net/http names the URL that redirected, with the token in it.
	req.Header.Del("Referer")
	return nil
}
