// Package proxy stands between a client and an API server and makes requests go wrong: refused, lost after they took
// effect, or late. Watches can be delayed, which is how a stale cache is made. It also shows
// what the API server answers.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Verdict is what happens to a request.
type Verdict int

const (
	// Pass lets the request through.
	Pass Verdict = iota
	// Refuse answers 500 without asking the API server.
	Refuse
	// Conflict answers 409 without asking the API server.
	Conflict
	// Lose has the API server handle the request and then drops the connection, so that the client does not learn of it.
	Lose
)

// Proxy forwards requests to one API server.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	judge   func(*http.Request) Verdict
	observe func(*http.Response)
	delay   time.Duration
}

// Start starts a proxy on a loopback address in front of the API server that config reaches.
func Start(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(config.CAData) {
		return nil, errors.New("the CA of the API server must be inline")
	}
	p := &Proxy{judge: func(*http.Request) Verdict { return Pass }, observe: func(*http.Response) {}}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}, // MinVersion is that of Go
		FlushInterval:  -1,
		ModifyResponse: p.modify,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(reverse, w, r) }))
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	return p, nil
}

// Stop ends the proxy and all its connections.
func (p *Proxy) Stop() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// Through returns a copy of the config that goes through the proxy. It must authenticate by a token.
func (p *Proxy) Through(config *rest.Config) *rest.Config {
	through := rest.CopyConfig(config)
	through.Host = p.server.URL
	through.TLSClientConfig = rest.TLSClientConfig{CAData: certificate(p.server)}
	return through
}

// Judge sets what happens to each request from now on. It is asked from several goroutines.
func (p *Proxy) Judge(judge func(*http.Request) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// Observe shows responses from now on to a function, which may replace the body by one that passes on the same and
// looks at it. It is called from several goroutines.
func (p *Proxy) Observe(observe func(*http.Response)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe = observe
}

// DelayWatches has all events of watches that begin from now on arrive late.
func (p *Proxy) DelayWatches(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

func (p *Proxy) serve(reverse http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	judge := p.judge
	p.mu.Unlock()
	switch judge(r) {
	case Refuse:
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case Conflict:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	case Lose:
		reverse.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		reverse.ServeHTTP(w, r)
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	// A client that has gone away is of no interest.
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"refused by the test","reason":%q,"code":%d}`, reason, code)
}

// modify shows the response, and delays the body of a watch.
func (p *Proxy) modify(response *http.Response) error {
	p.mu.Lock()
	observe, delay := p.observe, p.delay
	p.mu.Unlock()
	observe(response)
	if delay > 0 && response.Request.URL.Query().Get("watch") == "true" {
		response.Body = delayed(response.Request.Context(), response.Body, delay)
	}
	return nil
}

// chunk is a part of a body and when it may be read.
type chunk struct {
	data []byte
	due  time.Time
}

// delayed returns a body whose every part arrives late by the delay, without holding up the ones after it.
func delayed(ctx context.Context, body io.ReadCloser, delay time.Duration) io.ReadCloser {
	reader, writer := io.Pipe()
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 32<<10)
			n, err := body.Read(buffer)
			if n > 0 {
				select {
				case chunks <- chunk{buffer[:n], time.Now().Add(delay)}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { _ = writer.Close(); _ = body.Close() }()
		for c := range chunks {
			select {
			case <-time.After(time.Until(c.due)):
			case <-ctx.Done():
				return
			}
			if _, err := writer.Write(c.data); err != nil {
				return
			}
		}
	}()
	return reader
}
